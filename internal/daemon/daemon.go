// Package daemon prepares the folders of a libvirtd that runs as the account of a guest's pod ("session mode"): its settings, and the capabilities of QEMU
// that were probed when the image was made.
package daemon

import (
	"errors"
	"os"
	"path/filepath"
)

// settings is the file of the image with the settings of libvirt's QEMU driver.
const settings = "/etc/libvirt/qemu.conf"

// CopySettings copies the settings of the image below root, which is '/' in a pod, for a libvirtd with this XDG_CONFIG_HOME. A libvirtd in session mode does
// not read /etc/libvirt.
func CopySettings(root, configHome string) error {
	text, err := os.ReadFile(filepath.Join(root, settings))
	if err != nil {
		return err
	}
	return replaceFile(filepath.Join(configHome, "libvirt", filepath.Base(settings)), text)
}

// replaceFile writes a file atomically, because the process may be killed at any time.
func replaceFile(file string, text []byte) (err error) {
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
