package guest

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/kilnvm/kiln/api/v1alpha1"
)

// logHead is the beginning of a log: libvirt writes QEMU's command line there.
const logHead = "2026-11-26 05:10:00.123+0000: starting up libvirt version: 11.3.0, qemu version: 10.0.2, hostname: guest-a\n" +
	"/usr/bin/qemu-system-x86_64 \\\n-name guest=team_a \\\n-msg timestamp=on\n"

// TestLastLine: QEMU's last line is found in the log, to which libvirt writes, too.
func TestLastLine(t *testing.T) {
	const (
		redirected = "char device redirected to /dev/pts/0 (label charserial0)\n"
		ended      = "2026-11-26 05:10:09.001+0000: shutting down, reason=crashed\n"
		assertion  = "qemu-system-x86_64: ../accel/tcg/cpu-exec.c:1046: assertion failed"
	)
	for _, c := range []struct{ why, log, want string }{
		{"QEMU was killed", logHead + redirected + ended, ""},
		{"QEMU says why, with the time", logHead + redirected + "2026-11-26T05:10:09.000001Z " + assertion + "\n" + ended, assertion},
		{"QEMU says why, without it", logHead + assertion + "\r\n\n" + ended, assertion},
		{"the last of two lines counts", logHead + "qemu-system-x86_64: warning: slow\n" + assertion, assertion},
		{"a line of the guest's domain before", logHead + assertion + "\n" + ended + logHead + ended, ""},
		{"the command line was cut off", "other-device \\\n-msg timestamp=on\n" + ended, ""},
		{"an empty log", "", ""},
	} {
		if got := lastQEMULine([]byte(c.log)); got != c.want {
			t.Errorf("%s: %q, want %q", c.why, got, c.want)
		}
	}
}

// TestWithLastLine: only a crash quotes QEMU's log, and only the end of the log is read.
func TestWithLastLine(t *testing.T) {
	d := &Daemon{Folder: t.TempDir()}
	crashed := v1alpha1.GuestDomain{Reason: v1alpha1.ReasonCrashed, Message: "it crashed"}
	if got := d.addQEMULastLine(crashed); got != crashed {
		t.Errorf("without a log: %+v", got)
	}
	dir := filepath.Join(d.CacheHome(), "libvirt", "qemu", "log")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	log := logHead + strings.Repeat("x", 2*logTail) + "\nqemu-system-x86_64: out of luck\n"
	if err := os.WriteFile(filepath.Join(dir, "team_a.log"), []byte(log), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := d.addQEMULastLine(crashed).Message; got != "it crashed; QEMU's last line: qemu-system-x86_64: out of luck" {
		t.Errorf("it says %q", got)
	}
	for _, other := range []*Daemon{nil, d} {
		off := v1alpha1.GuestDomain{Reason: v1alpha1.ReasonPoweredOff, Message: "off"}
		if got := other.addQEMULastLine(off); got != off {
			t.Errorf("a guest that powered off: %+v", got)
		}
	}
}

// TestLogIsAPipe: a tenant who replaces the log with a FIFO does not block the launcher.
func TestLogIsAPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := readTail(path); len(got) > 0 {
		t.Errorf("it has %q", got)
	}
}
