package imported

import (
	"strings"

	"github.com/kilnvm/kiln/pkg/domain/abi"
	v1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"
)

// Match finds the devices of a domain in a VMI that another program made of it, such as virt-v2v or Forklift: network cards by their MAC, drives by their
// serial, and else both by their order, as such programs keep it. The VMI is explicit. The Reading has no VM.
func Match(doc *Document, vmi *v1.VirtualMachineInstance) (*Reading, error) {
	architecture, err := architectureOf(doc.Domain)
	if err != nil {
		return nil, err
	}
	dom, err := copyWithoutAliases(doc.Domain)
	if err != nil {
		return nil, err
	}
	r := &reader{dom: dom, arch: architecture}
	r.Domain = dom
	size, err := r.memorySize()
	if err != nil {
		return nil, err
	}
	r.setMemory(size)
	r.OtherBoard, r.NoAddresses = isOtherBoard(architecture, dom.OS.Type.Machine), !hasAddresses(dom)
	r.matchDisks(vmi.Spec.Domain.Devices.Disks)
	r.matchInterfaces(vmi.Spec.Domain.Devices.Interfaces)
	return &r.Reading, nil
}

// matchDisks gives the drives of the domain the names of the VMI's drives: of the same serial, else of the same kind in their order.
func (r *reader) matchDisks(disks []v1.Disk) {
	left := make([]*v1.Disk, len(disks))
	for i := range disks {
		left[i] = &disks[i]
	}
	for _, same := range []func(*libvirtxml.DomainDisk, *v1.Disk) bool{
		func(given *libvirtxml.DomainDisk, disk *v1.Disk) bool {
			return given.Serial != "" && given.Serial == disk.Serial
		},
		func(given *libvirtxml.DomainDisk, disk *v1.Disk) bool { return kindOfDrive(given) == kindOfDisk(disk) },
	} {
		for i := range r.dom.Devices.Disks {
			given := &r.dom.Devices.Disks[i]
			for j, disk := range left {
				if given.Alias == nil && disk != nil && same(given, disk) {
					given.Alias, left[j] = abi.BoundAlias("disk", disk.Name), nil
				}
			}
		}
	}
}

// kindOfDrive returns the kind of a drive of a domain: disk, lun, cdrom or floppy.
func kindOfDrive(given *libvirtxml.DomainDisk) string {
	if given.Device == "" {
		return "disk"
	}
	return given.Device
}

// kindOfDisk returns the kind of a drive of a VMI.
func kindOfDisk(disk *v1.Disk) string {
	switch {
	case disk.CDRom != nil:
		return "cdrom"
	case disk.LUN != nil:
		return "lun"
	}
	return "disk"
}

// matchInterfaces gives the network cards of the domain the names of the VMI's interfaces: of the same MAC, else in their order.
func (r *reader) matchInterfaces(interfaces []v1.Interface) {
	left := make([]*v1.Interface, len(interfaces))
	for i := range interfaces {
		left[i] = &interfaces[i]
	}
	for _, same := range []func(*libvirtxml.DomainInterface, *v1.Interface) bool{
		func(given *libvirtxml.DomainInterface, nic *v1.Interface) bool {
			return given.MAC != nil && strings.EqualFold(given.MAC.Address, strings.ReplaceAll(nic.MacAddress, "-", ":"))
		},
		func(*libvirtxml.DomainInterface, *v1.Interface) bool { return true },
	} {
		for i := range r.dom.Devices.Interfaces {
			given := &r.dom.Devices.Interfaces[i]
			for j, nic := range left {
				if given.Alias == nil && nic != nil && same(given, nic) {
					given.Alias, left[j] = abi.BoundAlias("interface", nic.Name), nil
				}
			}
		}
	}
}
