package hostresources

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/kilnvm/kiln/pkg/domain/backend"
	"golang.org/x/sys/unix"
)

// Blocks that QEMU accepts, in bytes: powers of two from MIN_BLOCK_SIZE to MAX_BLOCK_SIZE of its util/block-helpers.h.
const (
	minBlock = 512
	maxBlock = 2 << 20
)

// alignment is of what every raw disk has a whole number, in bytes. A guest may have blocks of 4 KiB, and so may the storage: there QEMU, which bypasses
// the page cache, opens no disk for writing that ends within a block.
const alignment = 4 << 10

// aligned returns the least whole number of blocks with room for size bytes.
func aligned(size int64) int64 {
	if size < 0 || size > math.MaxInt64-alignment {
		return size // nothing can be made of it
	}
	return (size + alignment - 1) / alignment * alignment
}

// measured returns the volume with its block sizes, for disks with blockSize.matchVolume. A file has the block size of its file system. Block
// sizes stay 0 (unknown) if the file system's are larger than QEMU accepts.
func measured(volume backend.Volume) (backend.Volume, error) {
	if volume.Network != nil || volume.Adapter != nil {
		return volume, nil // only the server knows them, and a LUN does not exist before its adapter
	}
	info, err := os.Stat(volume.Path)
	if err != nil {
		return volume, err
	}
	if info.Mode()&os.ModeDevice != 0 {
		return measuredDevice(volume)
	}
	var system unix.Statfs_t
	if err := unix.Statfs(volume.Path, &system); err != nil {
		return volume, fmt.Errorf("block size of '%s': %w", filepath.Base(volume.Path), err)
	}
	if size := uint(system.Bsize); size >= minBlock && size <= maxBlock && size&(size-1) == 0 {
		volume.LogicalBlock, volume.PhysicalBlock, volume.DiscardGranularity = size, size, size
	}
	return volume, nil
}

// available returns the free bytes of a folder's file system.
func available(dir string) (int64, error) {
	var system unix.Statfs_t
	if err := unix.Statfs(dir, &system); err != nil {
		return 0, err
	}
	return int64(min(system.Bavail, math.MaxInt64/uint64(system.Bsize)) * uint64(system.Bsize)), nil //nolint:gosec // bounded, and block sizes are positive
}

// measuredDevice reads what the kernel's block layer reports: /sys/block/DISK/queue, described in its sysfs-block ABI document.
func measuredDevice(volume backend.Volume) (backend.Volume, error) {
	var stat unix.Stat_t
	if err := unix.Stat(volume.Path, &stat); err != nil {
		return volume, err
	}
	queue, err := queueOf("/sys", uint64(stat.Rdev))
	if err != nil {
		return volume, err
	}
	var errs [3]error
	volume.LogicalBlock, errs[0] = number(filepath.Join(queue, "logical_block_size"))
	volume.PhysicalBlock, errs[1] = number(filepath.Join(queue, "physical_block_size"))
	volume.DiscardGranularity, errs[2] = number(filepath.Join(queue, "discard_granularity"))
	return volume, errors.Join(errs[:]...)
}

// queueOf returns the sysfs folder with the limits of a block device; for a partition that of its disk.
func queueOf(sys string, device uint64) (string, error) {
	own, err := filepath.EvalSymlinks(filepath.Join(sys, "dev", "block", fmt.Sprintf("%d:%d", unix.Major(device), unix.Minor(device))))
	if err != nil {
		return "", err
	}
	queue := filepath.Join(own, "queue")
	if _, err := os.Stat(queue); err == nil {
		return queue, nil
	}
	return filepath.Join(filepath.Dir(own), "queue"), nil
}

// number reads a file of sysfs. A file that a driver does not provide counts as 0.
func number(file string) (uint, error) {
	raw, err := os.ReadFile(file)
	if os.IsNotExist(err) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseUint(strings.TrimSpace(string(raw)), 10, 32)
	return uint(n), err
}
