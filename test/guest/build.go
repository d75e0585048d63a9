// Package guest makes a small Linux guest out of Debian's packages and reads what it reports.
//
// The guest is Debian's stock kernel and an initramfs that holds busybox, the drivers of every
// device that Kiln renders, and one script (init.sh). It loads the drivers, writes the hardware it
// sees to its first serial port, and stays up until its power button is pressed. Nothing has to be
// installed: packages that are not there are fetched by apt-get into the user's cache directory.
package guest

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// Build writes the guest below dir, laid out as a kernel boot image: dir/boot/vmlinuz and
// dir/boot/initrd, so that dir can stand in for the container of firmware.kernelBoot with
// kernelPath /boot/vmlinuz and initrdPath /boot/initrd. It returns both paths. The initramfs is
// about 6 MiB; building it takes well under a second once the packages are in the cache. The
// errors name the Debian package that could be neither found nor fetched.
func Build(dir string) (kernel, initramfs string, err error) {
	source, err := findKernel()
	if err != nil {
		return "", "", err
	}
	shell, err := findBusybox()
	if err != nil {
		return "", "", err
	}
	boot := filepath.Join(dir, "boot")
	if err := os.MkdirAll(boot, 0o755); err != nil {
		return "", "", err
	}
	kernel, initramfs = filepath.Join(boot, "vmlinuz"), filepath.Join(boot, "initrd")
	// Not the unpacked one, see UnpackKernel.
	if err := copyFile(source.image, kernel); err != nil {
		return "", "", err
	}
	if err := writeInitramfs(initramfs, func(out io.Writer) error { return packInitramfs(source, shell, initScript, wanted, out) }); err != nil {
		return "", "", fmt.Errorf("initramfs for kernel %s: %w", source.image, err)
	}
	return kernel, initramfs, nil
}

// writeInitramfs completes the archive or leaves no file behind.
func writeInitramfs(path string, pack func(io.Writer) error) (err error) {
	out, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, out.Close())
		if err != nil {
			err = errors.Join(err, os.Remove(path))
		}
	}()
	return pack(out)
}

func copyFile(from, to string) (err error) {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	_, err = io.Copy(out, in)
	return err
}
