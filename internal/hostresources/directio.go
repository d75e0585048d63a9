package hostresources

import (
	"errors"

	"github.com/kilnvm/kiln/pkg/domain/backend"
	"golang.org/x/sys/unix"
)

// withDirectIO returns the volume with NoDirectIO. QEMU opens an overlay and its backing image with the same flags, so one file system without O_DIRECT
// decides for both, as in KubeVirt.
func withDirectIO(volume backend.Volume) backend.Volume {
	if volume.Network != nil || volume.Adapter != nil {
		return volume // no file of this host, and a LUN does not exist before its adapter
	}
	volume.NoDirectIO = refusesDirectIO(volume.Path) || volume.Backing != "" && refusesDirectIO(volume.Backing)
	return volume
}

// refusesDirectIO reports whether open(2) fails with EINVAL because of O_DIRECT. QEMU tests the same (util/osdep.c). EINVAL without O_DIRECT, and every other
// error, has another cause, which QEMU reports when it opens the file, perhaps as another user.
func refusesDirectIO(path string) bool {
	// A tenant may replace its disk by a FIFO: O_NONBLOCK does not wait for a writer.
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
