package guest_test

import (
	"strings"
	"testing"

	rpc "github.com/digitalocean/go-libvirt"
	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/test/explicit"
)

// TestDestroyed: a guest outlives its libvirtd, is reported again afterwards, and is destroyed when its grace period is over: this one has no system that
// could power off.
func TestDestroyed(t *testing.T) {
	t.Parallel()
	c := serve(t, vmiOf(explicit.Plain(t, "guest"), 2))
	l := launch(t, c, nil)
	status := c.reports(t, l, "a guest that runs", in(v1alpha1.GuestRunning))
	if !strings.HasPrefix(status.Domain.Machine, "pc-q35-") || status.Facts == nil || status.Facts.Machine != status.Domain.Machine {
		t.Errorf("the machine is '%s', the facts are %+v", status.Domain.Machine, status.Facts)
	}
	l.kill(t, "libvirtd")
	l.onDomain(t, func(libvirt *rpc.Libvirt, domain rpc.Domain) error { return libvirt.DomainSuspend(domain) })
	paused := c.reports(t, l, "a guest that is paused", in(v1alpha1.GuestPaused))
	if paused.Domain.Reason != v1alpha1.ReasonPausedByUser {
		t.Errorf("it is paused for %+v", paused.Domain)
	}
	l.onDomain(t, func(libvirt *rpc.Libvirt, domain rpc.Domain) error { return libvirt.DomainResume(domain) })
	c.reports(t, l, "a guest that runs again", in(v1alpha1.GuestRunning))
	for pid, state := range l.processes(t, "") {
		if state == "Z" {
			t.Errorf("nobody has buried process %d", pid)
		}
	}
	l.term(t)
	l.term(t) // kubelet repeats itself
	if got := l.exits(t); got != 0 {
		t.Errorf("the launcher ends with status %d, want 0", got)
	}
	last := c.reports(t, l, "a guest that was destroyed", in(v1alpha1.GuestDestroyed))
	if last.Domain.Reason != v1alpha1.ReasonStopped {
		t.Errorf("it was destroyed for %+v", last.Domain)
	}
}

// TestKilled: a guest whose QEMU is killed has failed, and so has its pod.
func TestKilled(t *testing.T) {
	t.Parallel()
	c := serve(t, vmiOf(explicit.Plain(t, "guest"), 2))
	l := launch(t, c, nil)
	c.reports(t, l, "a guest that runs", in(v1alpha1.GuestRunning))
	l.kill(t, "qemu-system-x86")
	if got := l.exits(t); got != 1 {
		t.Errorf("the launcher ends with status %d, want 1", got)
	}
	last := c.reports(t, l, "a guest that failed", in(v1alpha1.GuestFailed))
	if last.Domain.Reason != v1alpha1.ReasonCrashed {
		t.Errorf("it failed for %+v", last.Domain)
	}
}
