package guest

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestHugePagesOfDaemon: qemu.conf names a folder only if huge pages are mounted on it. libvirt does not start with another folder.
func TestHugePagesOfDaemon(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	d := &Daemon{Folder: t.TempDir(), HugePages: folder}
	configured := func() string {
		if err := d.writeConfig(); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(filepath.Join(d.Folder, "config", "libvirt", "qemu.conf"))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	if got := configured(); strings.Contains(got, "hugetlbfs") {
		t.Errorf("a folder without huge pages:\n%s", got)
	}
	d.HugePages = filepath.Join(folder, "missing")
	if got := configured(); strings.Contains(got, "hugetlbfs") {
		t.Errorf("no folder:\n%s", got)
	}
	if err := unix.Mount("none", folder, "hugetlbfs", 0, ""); errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENODEV) {
		t.Skip("this user or kernel mounts no huge pages")
	} else if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(folder, 0) })
	d.HugePages = folder
	if got, want := configured(), "hugetlbfs_mount = \""+folder+"\"\n"; !strings.Contains(got, want) {
		t.Errorf("want %s, got:\n%s", want, got)
	}
}

// TestDaemonThatEnds: work with a daemon that ends, or cannot be started, fails at once with the reason, and not when the time is over.
func TestDaemonThatEnds(t *testing.T) {
	t.Parallel()
	for program, want := range map[string]string{"/bin/false": "libvirt has ended: exit status 1", "/nowhere": "libvirt has ended: fork/exec /nowhere"} {
		d := &Daemon{Program: program, Folder: t.TempDir()}
		err := d.RunWhile(t.Context(), func(context.Context) error { return errors.New("work was begun") })
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want '%s'", program, err, want)
		}
	}
}
