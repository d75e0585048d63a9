package frontend_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/pkg/domain/abi"
	"github.com/kilnvm/kiln/pkg/domain/frontend"
	"github.com/kilnvm/kiln/test/libvirt"
	v1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"
)

// TestLibvirtAddsNothing defines rendered guests with a real libvirt and compares what it stored with what was rendered:
// nothing that a guest sees may be added, moved or changed. The backend's part is filled with trivial sources.
func TestLibvirtAddsNothing(t *testing.T) {
	t.Parallel()
	daemon := libvirt.Start(t)
	for name, in := range guests(t) {
		t.Run(name, func(t *testing.T) {
			dom := rendered(t, in)
			complete(dom)
			text, err := dom.Marshal()
			if err != nil {
				t.Fatal(err)
			}
			if err := libvirt.Validate(text); err != nil {
				t.Errorf("libvirt's schema: %v", err)
			}
			stored, err := daemon.Define(text)
			if err != nil {
				t.Fatalf("%v\n%s", err, text)
			}
			var back libvirtxml.Domain
			if err := back.Unmarshal(stored); err != nil {
				t.Fatal(err)
			}
			want, got := projected(t, dom), projected(t, &back)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("libvirt changed the guest (-rendered +stored):\n%s", diff)
			}
			// In words, as people would be told.
			if changes := abi.Changes(dom, &back); len(changes) > 0 {
				t.Errorf("changes %q", changes)
			}
		})
	}
}

func projected(t *testing.T, dom *libvirtxml.Domain) string {
	t.Helper()
	text, err := abi.Project(dom).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// complete gives every device a source that any host has. Nothing is started.
func complete(dom *libvirtxml.Domain) {
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

// rendered fails the test on errors.
func rendered(t testing.TB, in frontend.Input) *libvirtxml.Domain {
	t.Helper()
	dom, errs := frontend.Render(in)
	if len(errs) > 0 {
		t.Fatal(errs.ToAggregate())
	}
	return dom
}

func disk(name string, bus v1.DiskBus) v1.Disk {
	return v1.Disk{Name: name, DiskDevice: v1.DiskDevice{Disk: &v1.DiskTarget{Bus: bus}}}
}

func ptr[T any](v T) *T { return &v }
