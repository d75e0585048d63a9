package guest

import (
	"bytes"
	"debug/elf"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/ulikunitz/xz"
)

// wanted lists the drivers of every device model that Kiln renders, in the order in which they are
// loaded. What they depend on is found in the modules themselves. A driver that this kernel has
// built in, or not at all, is left out: the test that needs the device then does not see it.
var wanted = []string{
	"virtio_pci", "virtio_console", "virtio_rng", "virtio_balloon", "virtio_input",
	"virtio_mem", "virtio_scsi", "ahci", "sd_mod", "sr_mod", "virtio_blk", "nvme",
	"virtio_net", "e1000", "e1000e", "8139cp",
	"xhci_pci", "ehci_pci", "uhci_hcd", "usb_storage", "usbhid", "hid_generic",
	"i6300esb", "iTCO_wdt", "pvpanic_pci", "evdev", "button", "qemu_fw_cfg",
	"efivarfs",           // for variables of the firmware
	"cpuid",              // for what CPUID says
	"af_packet", "isofs", // for a guest that is told to serve, and for seeds of cloud-init
}

// essential tells the kernels that can serve: Debian's cloud flavour has neither AHCI (SATA disks)
// nor e1000e nor xHCI, so its guests would not see half of what a domain describes.
var essential = []string{"virtio_pci", "virtio_blk", "virtio_net", "virtio_scsi", "sd_mod", "ahci", "e1000e", "xhci_pci", "evdev", "button"}

// kernelSource is a kernel image with the directory that holds its modules.
type kernelSource struct {
	image   string
	modules string
}

// driver is one kernel module, uncompressed.
type driver struct {
	name   string
	object []byte
}

// indexModules maps module names, always with underscores as the kernel itself writes them, to files.
func (k kernelSource) indexModules() (map[string]string, error) {
	files := map[string]string{}
	err := filepath.WalkDir(k.modules, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if name, rest, found := strings.Cut(entry.Name(), ".ko"); found && (rest == "" || rest == ".xz") {
			files[strings.ReplaceAll(name, "-", "_")] = path
		}
		return nil
	})
	return files, err
}

// checkComplete reports why this kernel cannot serve, nil if it can: it has an image and the modules.
func (k kernelSource) checkComplete(modules []string) error {
	if _, err := os.Stat(k.image); err != nil {
		return err
	}
	files, err := k.indexModules()
	if err != nil {
		return err
	}
	for _, name := range modules {
		if files[name] == "" {
			return fmt.Errorf("kernel %s has no module '%s'", filepath.Base(k.image), name)
		}
	}
	return nil
}

// driversFor returns modules and all that they depend on, each after what it needs.
func (k kernelSource) driversFor(names ...string) ([]driver, error) {
	files, err := k.indexModules()
	if err != nil {
		return nil, err
	}
	var out []driver
	seen := map[string]bool{}
	var add func(name string) error
	add = func(name string) error {
		path := files[name]
		if seen[name] || path == "" {
			return nil
		}
		seen[name] = true
		object, err := readModule(path)
		if err != nil {
			return err
		}
		needs, err := dependencies(object)
		if err != nil {
			return fmt.Errorf("module %s: %w", path, err)
		}
		for _, need := range needs {
			if err := add(need); err != nil {
				return err
			}
		}
		out = append(out, driver{name, object})
		return nil
	}
	for _, name := range names {
		if err := add(name); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// readModule uncompresses what Debian 13 and later ship as .ko.xz.
func readModule(path string) ([]byte, error) {
	raw, err := os.ReadFile(path)
	if err != nil || !strings.HasSuffix(path, ".xz") {
		return raw, err
	}
	plain, err := xz.NewReader(bytes.NewReader(raw))
	if err != nil {
		return nil, fmt.Errorf("module %s: %w", path, err)
	}
	return io.ReadAll(plain)
}

// dependencies reads the module's own "depends=a,b" from its .modinfo section. modules.dep would say
// the same, but depmod writes it only when the package is installed, and ours are only unpacked.
func dependencies(object []byte) ([]string, error) {
	file, err := elf.NewFile(bytes.NewReader(object))
	if err != nil {
		return nil, err
	}
	// The section is a list of NAME=VALUE texts, each ended by a zero byte.
	section := file.Section(".modinfo")
	if section == nil {
		return nil, fmt.Errorf("no .modinfo section")
	}
	info, err := section.Data()
	if err != nil {
		return nil, err
	}
	for _, entry := range strings.Split(string(info), "\x00") {
		if list, found := strings.CutPrefix(entry, "depends="); found && list != "" {
			return strings.Split(strings.ReplaceAll(list, "-", "_"), ","), nil
		}
	}
	return nil, nil
}
