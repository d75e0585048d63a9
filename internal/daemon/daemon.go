// Package daemon prepares the folders with which libvirtd starts as the account of a guest's pod ("session mode"): its settings, and the capabilities of
// QEMU that were probed when the image was made.
package daemon

import (
	"errors"
	"os"
	"path/filepath"
)

// settings is where the image has the settings of libvirt's driver of QEMU.
const settings = "/etc/libvirt/qemu.conf"

// Configure gives the settings of the image to a libvirtd whose XDG_CONFIG_HOME is the given folder: as the account of a pod it reads none of /etc/libvirt.
// The image lies below root, which is '/' in a pod.
func Configure(root, configHome string) error {
	text, err := os.ReadFile(filepath.Join(root, settings))
	if err != nil {
		return err
	}
	return replace(filepath.Join(configHome, "libvirt", filepath.Base(settings)), text)
}

// replace writes a file, or leaves what was there: the process may end at any line.
func replace(file string, text []byte) (err error) {
	dir := filepath.Dir(file)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	next, err := os.CreateTemp(dir, ".next-")
	if err != nil {
		return err
	}
	_, err = next.Write(text)
	if err := errors.Join(err, next.Close()); err != nil {
		return errors.Join(err, os.Remove(next.Name()))
	}
	return os.Rename(next.Name(), file)
}
