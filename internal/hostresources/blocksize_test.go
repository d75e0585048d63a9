package hostresources

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/kilnvm/kiln/pkg/domain/backend"
	"golang.org/x/sys/unix"
)

func TestBlockSizeOfFile(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "disk.img")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var system unix.Statfs_t
	if err := unix.Statfs(file, &system); err != nil {
		t.Fatal(err)
	}
	volume, err := withBlockSizes(backend.Volume{Path: file})
	if err != nil {
		t.Fatal(err)
	}
	if size := uint(system.Bsize); volume.LogicalBlock != size || volume.PhysicalBlock != size || volume.DiscardGranularity != size {
		t.Errorf("blocks are %d/%d/%d bytes, and the file system has blocks of %d", volume.LogicalBlock, volume.PhysicalBlock, volume.DiscardGranularity, size)
	}
	if _, err := withBlockSizes(backend.Volume{Path: file + ".not"}); err == nil {
		t.Error("a file that is not there has blocks")
	}
}

// TestQueueOfDevice: sysfs has the limits of a disk beside its partitions.
func TestQueueOfDevice(t *testing.T) {
	t.Parallel()
	sys := t.TempDir()
	disk := filepath.Join(sys, "devices", "sda")
	for _, dir := range []string{filepath.Join(disk, "queue"), filepath.Join(disk, "sda1"), filepath.Join(sys, "dev", "block")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, target := range map[string]string{"8:0": disk, "8:1": filepath.Join(disk, "sda1")} {
		if err := os.Symlink(target, filepath.Join(sys, "dev", "block", name)); err != nil {
			t.Fatal(err)
		}
	}
	want, err := filepath.EvalSymlinks(filepath.Join(disk, "queue"))
	if err != nil {
		t.Fatal(err)
	}
	for _, device := range []uint64{unix.Mkdev(8, 0), unix.Mkdev(8, 1)} {
		if got, err := queueFolder(sys, device); err != nil || got != want {
			t.Errorf("limits of %d:%d are in '%s' (%v), want '%s'", unix.Major(device), unix.Minor(device), got, err, want)
		}
	}
	if _, err := queueFolder(sys, unix.Mkdev(9, 9)); err == nil {
		t.Error("a device that sysfs does not know has limits")
	}
	if n, err := readNumber(filepath.Join(disk, "queue", "discard_granularity")); n != 0 || err != nil {
		t.Errorf("a driver that cannot discard: %d, %v", n, err)
	}
}
