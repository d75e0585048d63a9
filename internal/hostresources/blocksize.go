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

// Limits of the block sizes that QEMU accepts, in bytes: powers of two from MIN_BLOCK_SIZE to MAX_BLOCK_SIZE of its util/block-helpers.h.
const (
	minBlockSize = 512
	maxBlockSize = 2 << 20
)

// blockAlignment is the unit of the size of every raw disk, in bytes. Guest and storage may have blocks of 4 KiB. On such storage QEMU, which bypasses the
// page cache, does not open a disk for writing that ends within a block.
const blockAlignment = 4 << 10

// roundUpToBlock rounds a size in bytes up to whole blocks.
func roundUpToBlock(size int64) int64 {
	if size < 0 || size > math.MaxInt64-blockAlignment {
		return size // creating the disk fails
	}
	return (size + blockAlignment - 1) / blockAlignment * blockAlignment
}

// withBlockSizes returns the volume with its block sizes, for disks with blockSize.matchVolume. A file has the block size of its file system. They
// stay 0 (unknown) if QEMU does not accept the block size of the file system.
func withBlockSizes(volume backend.Volume) (backend.Volume, error) {
	if volume.Network != nil || volume.Adapter != nil {
		return volume, nil // only the server knows them, and a LUN does not exist before its adapter
	}
	info, err := os.Stat(volume.Path)
	if err != nil {
		return volume, err
	}
	if info.Mode()&os.ModeDevice != 0 {
		return withDeviceBlockSizes(volume)
	}
	var system unix.Statfs_t
	if err := unix.Statfs(volume.Path, &system); err != nil {
		return volume, fmt.Errorf("block size of '%s': %w", filepath.Base(volume.Path), err)
	}
	if size := uint(system.Bsize); size >= minBlockSize && size <= maxBlockSize && size&(size-1) == 0 {
		volume.LogicalBlock, volume.PhysicalBlock, volume.DiscardGranularity = size, size, size
	}
	return volume, nil
}

// freeBytes returns the free bytes of a folder's file system.
func freeBytes(dir string) (int64, error) {
	var system unix.Statfs_t
	if err := unix.Statfs(dir, &system); err != nil {
		return 0, err
	}
	return int64(min(system.Bavail, math.MaxInt64/uint64(system.Bsize)) * uint64(system.Bsize)), nil //nolint:gosec // bounded, and block sizes are positive
}

// withDeviceBlockSizes returns the volume with the block sizes of /sys/block/DISK/queue, which the kernel's sysfs-block ABI document describes.
func withDeviceBlockSizes(volume backend.Volume) (backend.Volume, error) {
	var stat unix.Stat_t
	if err := unix.Stat(volume.Path, &stat); err != nil {
		return volume, err
	}
	queue, err := queueFolder("/sys", uint64(stat.Rdev))
	if err != nil {
		return volume, err
	}
	var errs [3]error
	volume.LogicalBlock, errs[0] = readNumber(filepath.Join(queue, "logical_block_size"))
	volume.PhysicalBlock, errs[1] = readNumber(filepath.Join(queue, "physical_block_size"))
	volume.DiscardGranularity, errs[2] = readNumber(filepath.Join(queue, "discard_granularity"))
	return volume, errors.Join(errs[:]...)
}

// queueFolder returns the sysfs folder with the limits of a block device. A partition has the folder of its disk.
func queueFolder(sys string, device uint64) (string, error) {
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

// readNumber reads a number from a file of sysfs. It is 0 if the driver does not provide the file.
func readNumber(file string) (uint, error) {
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
