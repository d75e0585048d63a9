package guest

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/kilnvm/kiln/api/v1alpha1"
)

// begun is how a log begins: libvirt writes the command line there.
const begun = "2026-11-26 05:10:00.123+0000: starting up libvirt version: 11.3.0, qemu version: 10.0.2, hostname: guest-a\n" +
	"/usr/bin/qemu-system-x86_64 \\\n-name guest=team_a \\\n-msg timestamp=on\n"

// TestLastLine: what QEMU wrote last is found below what libvirt writes into the same log.
func TestLastLine(t *testing.T) {
	const (
		redirected = "char device redirected to /dev/pts/0 (label charserial0)\n"
		ended      = "2026-11-26 05:10:09.001+0000: shutting down, reason=crashed\n"
		said       = "qemu-system-x86_64: ../accel/tcg/cpu-exec.c:1046: assertion failed"
	)
	for _, c := range []struct{ why, log, want string }{
		{"QEMU was killed", begun + redirected + ended, ""},
		{"QEMU says why, with the time", begun + redirected + "2026-11-26T05:10:09.000001Z " + said + "\n" + ended, said},
		{"QEMU says why, without it", begun + said + "\r\n\n" + ended, said},
		{"the last of two lines counts", begun + "qemu-system-x86_64: warning: slow\n" + said, said},
		{"a line of the guest's domain before", begun + said + "\n" + ended + begun + ended, ""},
		{"the command line was cut off", "other-device \\\n-msg timestamp=on\n" + ended, ""},
		{"an empty log", "", ""},
	} {
		if got := lastLine([]byte(c.log)); got != c.want {
			t.Errorf("%s: %q, want %q", c.why, got, c.want)
		}
	}
}

// TestWithLastLine: only a crash quotes QEMU's log, of which the end alone is read.
func TestWithLastLine(t *testing.T) {
	d := &Daemon{Folder: t.TempDir()}
	crashed := v1alpha1.GuestDomain{Reason: v1alpha1.ReasonCrashed, Message: "it crashed"}
	if got := d.withLastLine(crashed); got != crashed {
		t.Errorf("without a log: %+v", got)
	}
	dir := filepath.Join(d.CacheHome(), "libvirt", "qemu", "log")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	log := begun + strings.Repeat("x", 2*logTail) + "\nqemu-system-x86_64: out of luck\n"
	if err := os.WriteFile(filepath.Join(dir, "team_a.log"), []byte(log), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := d.withLastLine(crashed).Message; got != "it crashed; QEMU's last line: qemu-system-x86_64: out of luck" {
		t.Errorf("it says %q", got)
	}
	for _, other := range []*Daemon{nil, d} {
		off := v1alpha1.GuestDomain{Reason: v1alpha1.ReasonPoweredOff, Message: "off"}
		if got := other.withLastLine(off); got != off {
			t.Errorf("a guest that powered off: %+v", got)
		}
	}
}

// TestLogIsAPipe: a tenant who puts a FIFO in the place of the log does not stop the launcher.
func TestLogIsAPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := tail(path); len(got) > 0 {
		t.Errorf("it has %q", got)
	}
}
