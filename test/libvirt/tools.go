package libvirt

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// packages names the Debian package of each tool. Domains of other architectures, UEFI and TPM need
// more; libvirt names what such a domain lacks itself.
var packages = map[string]string{
	"libvirtd":           "libvirt-daemon",
	"virsh":              "libvirt-clients",
	"virt-xml-validate":  "libvirt-clients",
	"xmllint":            "libxml2-utils",
	"qemu-system-x86_64": "qemu-system-x86",
	"unshare":            "util-linux",
	"mount":              "mount",
}

// Missing returns an error that lists every missing tool with its Debian package, nil if all are installed and the
// daemon can be started.
func Missing() error {
	missing := needTools("libvirtd", "virsh", "virt-xml-validate", "xmllint", "qemu-system-x86_64", "unshare", "mount")
	// The drivers are libraries that the daemon loads; the package of the daemon has no driver for QEMU.
	if drivers, err := filepath.Glob("/usr/lib/*/libvirt/connection-driver/libvirt_driver_qemu.so"); err != nil || len(drivers) == 0 {
		missing = errors.Join(missing, errors.New("libvirt's QEMU driver is missing: install package 'libvirt-daemon-driver-qemu'"))
	}
	// Mount points of the private directories. The same package makes the user 'libvirt-qemu', without
	// which Debian's libvirtd does not start, whatever user the configuration names.
	for _, dir := range []string{"/etc/libvirt", "/var/lib/libvirt", "/var/cache/libvirt", "/var/log/libvirt"} {
		if _, err := os.Stat(dir); err != nil {
			missing = errors.Join(missing, fmt.Errorf("directory '%s' is missing: install package 'libvirt-daemon-system'", dir))
		}
	}
	if os.Geteuid() != 0 {
		missing = errors.Join(missing, errors.New("a private libvirtd needs mounts of its own: run as root"))
	}
	return missing
}

func needTools(tools ...string) error {
	var missing []error
	for _, tool := range tools {
		if _, err := exec.LookPath(tool); err != nil {
			missing = append(missing, fmt.Errorf("'%s' is missing: install package '%s'", tool, packages[tool]))
		}
	}
	return errors.Join(missing...)
}
