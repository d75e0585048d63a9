package frontend

import (
	"github.com/kilnvm/kiln/pkg/address"
	"github.com/kilnvm/kiln/pkg/domain/abi"
	"libvirt.org/go/libvirtxml"
)

// Owns channel and zPCI addresses, which only s390x guests have. libvirt: "Device Addresses", types ccw and pci with zpci.

// assignCCWAddresses numbers the virtio devices of an s390x guest on channel subsystem fe, which QEMU reserves for virtual devices. Devices that are
// not channel devices, and those with pciAddress, are zPCI functions.
func (p *addressPlanner) assignCCWAddresses() {
	const virtual = 0xfe
	var recorded []uint
	var devices, functions []*abi.Device
	for i := range p.devices {
		d := &p.devices[i]
		_, ok := p.pciRequest(d)
		switch {
		case !ok && d.Kind != "video" || d.Hostdev != nil && d.Model == "vfio-ap": // a crypto matrix has no address
			continue
		case p.onPCI(d):
			functions = append(functions, d)
			continue
		}
		number := address.Unrecorded
		if at, err := address.ParseCCW(p.recordedAddress(d.Key()).CCW); err == nil {
			number = at.Device
		}
		devices, recorded = append(devices, d), append(recorded, number)
	}
	numbers := address.Numbers(recorded, 0)
	for i, d := range devices {
		cssid, ssid, number := uint(virtual), uint(0), numbers[i]
		*d.Address = &libvirtxml.DomainAddress{CCW: &libvirtxml.DomainAddressCCW{CSSID: &cssid, SSID: &ssid, DevNo: &number}}
	}
	p.assignZPCIAddresses(functions)
}

// onPCI reports whether a device is a zPCI function: one with pciAddress, a PCI host device, or an interface whose model is not virtio.
func (p *addressPlanner) onPCI(d *abi.Device) bool {
	switch {
	case p.pinOf(d).address != "":
		return true
	case d.Hostdev != nil:
		return d.Model != "vfio-ccw"
	}
	return d.Interface != nil && d.Model != "virtio"
}

// assignZPCIAddresses puts the functions on the only PCI bus. Slot, UID and FID of a function are one number, so that they are unique and do not
// change when another device is added or removed; libvirt would number UID and FID in the order of the devices.
func (p *addressPlanner) assignZPCIAddresses(functions []*abi.Device) {
	topology := address.PCIe{Reserved: address.Reserved[p.spec.Architecture], Frozen: map[string]string{}}
	requests := make([]address.Device, len(functions))
	for i, d := range functions {
		pin := p.pinOf(d)
		requests[i] = address.Device{Key: d.Key(), Path: pin.path, Pin: pin.address}
		topology.Frozen[d.Key()] = p.recordedAddress(d.Key()).PCI
	}
	plan, errs := topology.PlaceZPCI(requests)
	if len(errs) > 0 {
		p.errs = append(p.errs, errs...)
		return
	}
	for i, d := range functions {
		at := plan.Devices[i]
		*d.Address = libvirtPCI(at, false)
		(*d.Address).PCI.ZPCI = &libvirtxml.DomainAddressZPCI{UID: &at.Slot, FID: &at.Slot}
	}
}
