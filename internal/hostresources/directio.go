package hostresources

import (
	"errors"

	"github.com/kilnvm/kiln/pkg/domain/backend"
	"golang.org/x/sys/unix"
)

// direct returns the volume with what its storage says about O_DIRECT. QEMU opens an overlay and its backing image in the same way, so that one file
// system without O_DIRECT decides for both, as in KubeVirt.
func direct(volume backend.Volume) backend.Volume {
	if volume.Network != nil || volume.Adapter != nil {
		return volume // no file of this host, and a LUN does not exist before its adapter
	}
	volume.NoDirectIO = refusesDirectIO(volume.Path) || volume.Backing != "" && refusesDirectIO(volume.Backing)
	return volume
}

// refusesDirectIO asks the kernel as QEMU does (util/osdep.c): it opens a file with O_DIRECT, and open(2) fails with EINVAL where the file system has none.
// EINVAL without O_DIRECT, and every other error, says nothing about it: QEMU reports them when it opens the file for itself, as another user perhaps.
func refusesDirectIO(path string) bool {
	// A tenant may put a FIFO in the place of its disk: O_NONBLOCK waits for no writer.
	const flags = unix.O_RDONLY | unix.O_NONBLOCK | unix.O_NOCTTY | unix.O_CLOEXEC
	file, err := unix.Open(path, flags|unix.O_DIRECT, 0)
	if err == nil {
		_ = unix.Close(file)
		return false
	}
	if !errors.Is(err, unix.EINVAL) {
		return false
	}
	if file, err = unix.Open(path, flags, 0); err != nil {
		return false
	}
	_ = unix.Close(file)
	return true
}
