package node

import (
	"errors"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// loopsBelow lists the loop devices whose files lie below dir: kubelet has one for each volume of mode Block, and only kubelet's
// own unmounting would detach it. Trap: ask while the node's mounts exist, later the kernel has forgotten the path.
func loopsBelow(dir string) ([]string, error) {
	files, err := filepath.Glob("/sys/block/loop*/loop/backing_file")
	if err != nil {
		return nil, err
	}
	var devices []string
	for _, file := range files {
		backing, err := os.ReadFile(file)
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ENODEV) {
			continue // detached since
		}
		if err != nil {
			return nil, err
		}
		if strings.HasPrefix(string(backing), dir+"/") {
			devices = append(devices, filepath.Join("/dev", filepath.Base(filepath.Dir(filepath.Dir(file)))))
		}
	}
	return devices, nil
}

func detachLoops(devices []string) error {
	var errs []error
	for _, path := range devices {
		device, err := os.Open(path)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		_, err = unix.IoctlRetInt(int(device.Fd()), unix.LOOP_CLR_FD)
		if errors.Is(err, unix.ENXIO) {
			err = nil // detached since
		}
		errs = append(errs, err, device.Close())
	}
	return errors.Join(errs...)
}
