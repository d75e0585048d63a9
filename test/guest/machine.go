package guest

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"
)

// Machine is what a machine boots of which tests want more than the report of its hardware.
type Machine struct {
	// Kernel and Initramfs are files for QEMU.
	Kernel, Initramfs string
	// Release is the kernel's, and Modules the folder of its modules.
	Release, Modules string
	// Busybox is a statically linked program.
	Busybox string
}

// cloudKernel is Debian's kernel for virtual machines. It boots faster than the kernel of guests, and has drivers of virtio devices.
const cloudKernel = "linux-image-cloud-amd64"

// BuildMachine writes an initramfs into dir with a script as process 1, which runs with the shell /bin/busybox, and with modules of the kernel, which the
// script loads in the order of the file /modules/order. A module that the kernel does not have is an error.
func BuildMachine(dir string, script []byte, modules ...string) (m Machine, err error) {
	source, err := unpackedKernel(cloudKernel, modules)
	if err != nil {
		return m, err
	}
	shell, err := findBusybox()
	if err != nil {
		return m, err
	}
	m = Machine{Kernel: source.image, Initramfs: filepath.Join(dir, "initramfs"), Release: strings.TrimPrefix(filepath.Base(source.image), "vmlinuz-"),
		Modules: source.modules, Busybox: shell}
	if err := writeInitramfs(m.Initramfs, func(out io.Writer) error { return packInitramfs(source, shell, script, modules, out) }); err != nil {
		return m, fmt.Errorf("initramfs for kernel %s: %w", source.image, err)
	}
	return m, nil
}
