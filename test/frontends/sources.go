package frontends

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"libvirt.org/go/libvirtxml"
)

// AddSources gives every device a source that libvirt accepts in a definition. A guest that starts needs AddFiles too.
func AddSources(dom *libvirtxml.Domain) {
	dom.Type = "qemu"
	l := dom.Devices
	for i := range l.Disks {
		l.Disks[i].Source = &libvirtxml.DomainDiskSource{File: &libvirtxml.DomainDiskSourceFile{File: fmt.Sprintf("/nonexistent/%d.img", i)}}
		if l.Disks[i].Device == "lun" {
			l.Disks[i].Source = &libvirtxml.DomainDiskSource{Block: &libvirtxml.DomainDiskSourceBlock{Dev: "/dev/nonexistent"}}
		}
	}
	for i := range l.Interfaces {
		l.Interfaces[i].Source = &libvirtxml.DomainInterfaceSource{Ethernet: &libvirtxml.DomainInterfaceSourceEthernet{}}
	}
	pty := &libvirtxml.DomainChardevSource{Pty: &libvirtxml.DomainChardevSourcePty{}}
	for i := range l.Serials {
		l.Serials[i].Source = pty
	}
	for i := range l.Consoles {
		l.Consoles[i].Source = pty
	}
	for i := range l.Channels {
		l.Channels[i].Source = &libvirtxml.DomainChardevSource{UNIX: &libvirtxml.DomainChardevSourceUNIX{Mode: "bind"}}
	}
	for i := range l.RedirDevs {
		l.RedirDevs[i].Source = &libvirtxml.DomainChardevSource{UNIX: &libvirtxml.DomainChardevSourceUNIX{Mode: "bind", Path: fmt.Sprintf("/nonexistent/%d", i)}}
	}
	for i := range l.TPMs {
		l.TPMs[i].Backend = &libvirtxml.DomainTPMBackend{Emulator: &libvirtxml.DomainTPMBackendEmulator{Version: "2.0"}}
	}
	for i := range l.RNGs {
		l.RNGs[i].Backend = &libvirtxml.DomainRNGBackend{Random: &libvirtxml.DomainRNGBackendRandom{Device: "/dev/urandom"}}
	}
	for i := range l.Filesystems {
		l.Filesystems[i].Source = &libvirtxml.DomainFilesystemSource{Mount: &libvirtxml.DomainFilesystemSourceMount{Socket: "/nonexistent/fs"}}
		dom.MemoryBacking = &libvirtxml.DomainMemoryBacking{
			MemorySource: &libvirtxml.DomainMemorySource{Type: "memfd"}, MemoryAccess: &libvirtxml.DomainMemoryAccess{Mode: "shared"},
		}
	}
	for i := range l.Hostdevs {
		zero, slot := uint(0), uint(i+3)
		switch h := &l.Hostdevs[i]; {
		case h.SubsysPCI != nil:
			h.SubsysPCI.Source = &libvirtxml.DomainHostdevSubsysPCISource{Address: &libvirtxml.DomainAddressPCI{Domain: &zero, Bus: &zero, Slot: &slot, Function: &zero}}
		case h.SubsysMDev != nil:
			h.SubsysMDev.Source = &libvirtxml.DomainHostdevSubsysMDevSource{
				Address: &libvirtxml.DomainAddressMDev{UUID: fmt.Sprintf("5d307ca9-b3ef-428c-8861-%012d", i)}}
		case h.SubsysUSB != nil:
			bus := uint(1)
			h.SubsysUSB.Source = &libvirtxml.DomainHostdevSubsysUSBSource{Address: &libvirtxml.DomainAddressUSB{Bus: &bus, Device: &slot}}
		}
	}
}

// AddFiles gives each disk an image, and each interface QEMU's own NAT: the guest can start.
func AddFiles(t *testing.T, dom *libvirtxml.Domain) {
	t.Helper()
	dir := t.TempDir()
	for i := range dom.Devices.Disks {
		path := filepath.Join(dir, dom.Devices.Disks[i].Target.Dev)
		if err := os.WriteFile(path, make([]byte, 1<<20), 0o600); err != nil {
			t.Fatal(err)
		}
		dom.Devices.Disks[i].Source.File.File = path
	}
	for i := range dom.Devices.Interfaces {
		dom.Devices.Interfaces[i].Source = &libvirtxml.DomainInterfaceSource{User: &libvirtxml.DomainInterfaceSourceUser{}}
	}
	for i := range dom.Devices.RedirDevs {
		dom.Devices.RedirDevs[i].Source = &libvirtxml.DomainChardevSource{Null: &libvirtxml.DomainChardevSourceNull{}}
	}
}
