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

// TestDestroyed: a guest outlives its libvirtd, is reported again afterwards, and is destroyed at the end of its grace period, because it has no operating
// system that could power off.
func TestDestroyed(t *testing.T) {
	t.Parallel()
	c := serveVMI(t, withGracePeriod(explicit.Plain(t, "guest"), 2))
	l := startLauncher(t, c, nil)
	status := c.waitForReport(t, l, "a guest that runs", inState(v1alpha1.GuestRunning))
	if !strings.HasPrefix(status.Domain.Machine, "pc-q35-") || status.Facts == nil || status.Facts.Machine != status.Domain.Machine {
		t.Errorf("the machine is '%s', the facts are %+v", status.Domain.Machine, status.Facts)
	}
	l.killProgram(t, "libvirtd")
	l.callLibvirt(t, func(libvirt *rpc.Libvirt, domain rpc.Domain) error { return libvirt.DomainSuspend(domain) })
	paused := c.waitForReport(t, l, "a guest that is paused", inState(v1alpha1.GuestPaused))
	if paused.Domain.Reason != v1alpha1.ReasonPausedByUser {
		t.Errorf("it is paused for %+v", paused.Domain)
	}
	l.callLibvirt(t, func(libvirt *rpc.Libvirt, domain rpc.Domain) error { return libvirt.DomainResume(domain) })
	c.waitForReport(t, l, "a guest that runs again", inState(v1alpha1.GuestRunning))
	for pid, state := range l.processStates(t, "") {
		if state == "Z" {
			t.Errorf("nobody has buried process %d", pid)
		}
	}
	l.sendTERM(t)
	l.sendTERM(t) // kubelet repeats itself
	if got := l.waitForExit(t); got != 0 {
		t.Errorf("the launcher ends with status %d, want 0", got)
	}
	last := c.waitForReport(t, l, "a guest that was destroyed", inState(v1alpha1.GuestDestroyed))
	if last.Domain.Reason != v1alpha1.ReasonStopped {
		t.Errorf("it was destroyed for %+v", last.Domain)
	}
}

// TestKilled: a guest whose QEMU is killed has failed, and its pod fails, too. The message quotes QEMU's last line, if QEMU wrote one.
func TestKilled(t *testing.T) {
	for _, lastLine := range []string{"", "qemu-system-x86_64: out of luck"} {
		t.Run(lastLine, func(t *testing.T) {
			t.Parallel()
			testKilledQEMU(t, lastLine)
		})
	}
}

func testKilledQEMU(t *testing.T, lastLine string) {
	t.Helper()
	c := serveVMI(t, withGracePeriod(explicit.Plain(t, "guest"), 2))
	l := startLauncher(t, c, nil)
	c.waitForReport(t, l, "a guest that runs", inState(v1alpha1.GuestRunning))
	logs, err := filepath.Glob(filepath.Join(l.root, pod.Private, "cache", "libvirt", "qemu", "log", "*.log"))
	if err != nil || len(logs) != 1 {
		t.Fatalf("QEMU's logs are %v (%v)", logs, err)
	}
	if lastLine != "" {
		appendToFile(t, logs[0], lastLine+"\n")
	}
	l.killProgram(t, "qemu-system-x86")
	if got := l.waitForExit(t); got != 1 {
		t.Errorf("the launcher ends with status %d, want 1", got)
	}
	last := c.waitForReport(t, l, "a guest that failed", inState(v1alpha1.GuestFailed))
	if _, quoted, _ := strings.Cut(last.Domain.Message, "QEMU's last line: "); last.Domain.Reason != v1alpha1.ReasonCrashed || quoted != lastLine {
		t.Errorf("it failed for %+v", last.Domain)
	}
}

// appendToFile appends to a file.
func appendToFile(t *testing.T, path, text string) {
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
