package guest_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	rpc "github.com/digitalocean/go-libvirt"
	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/pod"
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

// TestKilled: a guest whose QEMU is killed has failed, and so has its pod. What QEMU wrote last is in the message, and nothing if it wrote nothing.
func TestKilled(t *testing.T) {
	for _, said := range []string{"", "qemu-system-x86_64: out of luck"} {
		t.Run(said, func(t *testing.T) {
			t.Parallel()
			killed(t, said)
		})
	}
}

func killed(t *testing.T, said string) {
	t.Helper()
	c := serve(t, vmiOf(explicit.Plain(t, "guest"), 2))
	l := launch(t, c, nil)
	c.reports(t, l, "a guest that runs", in(v1alpha1.GuestRunning))
	logs, err := filepath.Glob(filepath.Join(l.root, pod.Private, "cache", "libvirt", "qemu", "log", "*.log"))
	if err != nil || len(logs) != 1 {
		t.Fatalf("QEMU's logs are %v (%v)", logs, err)
	}
	if said != "" {
		write(t, logs[0], said+"\n")
	}
	l.kill(t, "qemu-system-x86")
	if got := l.exits(t); got != 1 {
		t.Errorf("the launcher ends with status %d, want 1", got)
	}
	last := c.reports(t, l, "a guest that failed", in(v1alpha1.GuestFailed))
	if _, quoted, _ := strings.Cut(last.Domain.Message, "QEMU's last line: "); last.Domain.Reason != v1alpha1.ReasonCrashed || quoted != said {
		t.Errorf("it failed for %+v", last.Domain)
	}
}

// write appends to a file.
func write(t *testing.T, path, text string) {
	t.Helper()
	file, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := file.WriteString(text); err != nil {
		t.Fatal(err)
	}
}
