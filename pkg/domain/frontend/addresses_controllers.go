package frontend

import (
	"slices"

	"github.com/kilnvm/kiln/pkg/address"
	"github.com/kilnvm/kiln/pkg/domain/abi"
	"github.com/kilnvm/kiln/pkg/hardware"
	"github.com/kilnvm/kiln/pkg/record"
	"libvirt.org/go/libvirtxml"
)

// Owns disableHotplug, and with addresses.go the controllers and PCI and channel addresses.
// KubeVirt: converter/compute/controllers.go. QEMU: docs/pcie.txt.

// addControllers adds the controllers that the machine has or the devices need. They depend only on the number of devices, never on which ones exist.
func (p *addressPlanner) addControllers() {
	p.dom.Devices.Controllers = make([]libvirtxml.DomainController, 0, p.usbBuses+p.serials+5)
	if p.arch.usb == usbNever || p.usbBuses == 0 {
		p.newController("usb", 0, "none")
	}
	for i := range p.usbBuses {
		ports, c := uint(address.USBPorts), p.newController("usb", i, p.usbModel())
		if p.usbPort > defaultUSBPorts || !record.Omits(p.Frozen, record.OmittedUSBPorts) {
			c.USB = &libvirtxml.DomainControllerUSB{Port: &ports}
		}
	}
	p.addDriveControllers(false)
	// KubeVirt writes the virtio-serial controller with a serial console only. It is always written here, because the guest agent's channel is on
	// it and turning the console off must not remove it.
	for i := range p.serials {
		model := p.virtioModel()
		if p.arch.ccw {
			model = ""
		}
		p.useIOMMU(p.newController("virtio-serial", i, model))
	}
	p.addDriveControllers(true)
	if p.arch.ccw {
		p.newController("pci", 0, "pci-root") // s390x has the bus without devices too
	}
}

// addDriveControllers adds the controllers of disks that are on the root bus, or the others. A bus that takes disks while the guest runs has a controller from
// the first boot unless disableHotplug is set or the record omits it. A controller of the chipset is always there: libvirt lists it in every domain.
func (p *addressPlanner) addDriveControllers(onRootBus bool) {
	for i, bus := range hardware.DiskBuses {
		c := bus.Controller
		if c == nil || c.OnRootBus != onRootBus {
			continue
		}
		count := p.drives[i]
		plugged := bus.Hotplug && !p.dev.DisableHotplug && !record.Omits(p.Frozen, record.ControllerKey(string(bus.Name), 0))
		if count == 0 && (plugged || c.Chipset == p.arch.alias) {
			count = 1
		}
		for index := range count {
			p.addDriveController(bus, index)
		}
	}
}

func (p *addressPlanner) addDriveController(bus *hardware.DiskBus, index uint) {
	model := bus.Controller.Model
	if model == "" {
		p.newController(string(bus.Name), index, "")
		return
	}
	if !p.arch.ccw {
		model = p.virtioModel()
	}
	p.useIOMMU(p.newController(string(bus.Name), index, model))
}

// newController appends a controller and returns it. The pointer is valid until the next one is appended.
func (p *addressPlanner) newController(kind string, index uint, model string) *libvirtxml.DomainController {
	return p.addController(libvirtxml.DomainController{Type: kind, Index: &index, Model: model})
}

func (p *addressPlanner) addController(c libvirtxml.DomainController) *libvirtxml.DomainController {
	list := &p.dom.Devices.Controllers
	*list = append(*list, c)
	return &(*list)[len(*list)-1]
}

// useIOMMU makes a virtio controller use the IOMMU if memory is encrypted.
func (p *addressPlanner) useIOMMU(c *libvirtxml.DomainController) {
	if iommu := p.virtioIOMMU(); iommu != "" {
		c.Driver = &libvirtxml.DomainControllerDriver{IOMMU: iommu}
	}
}

// Slots of devices on the root bus: sound has the slot of Intel's ICH9, video slot 1, where libvirt places it on q35.
var (
	soundAddress = &address.PCI{Slot: 0x1b}
	videoAddress = &address.PCI{Slot: 0x01}
)

// pciRequest returns what a device needs of the PCI topology. It reports false for a device that is not on PCI.
func (p *addressPlanner) pciRequest(d *abi.Device) (address.Device, bool) {
	pin := p.pinOf(d)
	out := address.Device{Key: d.Key(), Path: pin.path, Pin: pin.address}
	switch {
	case abi.Conventional(d.Model) || p.isFlat():
		out.Where = address.OnRootBus
	case d.Model == "virtio-transitional":
		out.Where = address.OnBridge
	}
	switch d.Kind {
	case "interface", "filesystem", "rng", "vsock":
		return out, true
	case "hostdev":
		if out.NUMANode = p.numaNodeFor(d); out.NUMANode != nil {
			out.Where = address.BehindPort // also with placePCIDevicesOnRootComplex: the root bus has no NUMA node
		}
		return out, !onUSB(d)
	case "input":
		return out, !onUSB(d) && d.Bus != "ps2"
	case "disk":
		return out, hardware.Bus(d.Bus).Address == hardware.OnPCI
	case "controller":
		return p.controllerPlace(out, d)
	case "video":
		out.Where, out.Preferred = address.OnRootBus, videoAddress
		if at, err := address.ParsePCI(p.recordedAddress(out.Key).PCI); err == nil && at.Bus > 0 && d.Model == "virtio" { // another program made the machine
			out.Where, out.Preferred = address.BehindPort, nil
		}
		return out, d.Model != "ramfb" // ramfb is memory and not a PCI device
	case "sound":
		if d.Model == "ich9" {
			out.Preferred = soundAddress
		}
		return out, true
	case "watchdog", "panic":
		return out, abi.Conventional(d.Model)
	case "memballoon":
		return out, d.Model != "none"
	}
	return out, false
}

func (p *addressPlanner) controllerPlace(out address.Device, d *abi.Device) (address.Device, bool) {
	switch d.Controller.Type {
	case "usb":
		return out, d.Model != "none"
	case "virtio-serial":
		return out, true
	}
	c := hardware.Bus(d.Controller.Type).Controller
	if c == nil {
		return out, false
	}
	if c.OnRootBus {
		out.Where = address.OnRootBus
	}
	if *d.Controller.Index == 0 && c.Chipset == p.arch.alias {
		out.Preferred, out.Fixed = &address.PCI{Slot: c.Slot, Function: c.Function}, true
	}
	return out, true
}

// assignPCIAddresses assigns the addresses of all PCI devices. The order of the requests decides which free place a new device gets; a recorded or
// pinned device never moves.
func (p *addressPlanner) assignPCIAddresses() {
	topology := p.recordedTopology()
	var few [24]address.Device // on the stack, enough for most guests
	requests, requesters := few[:0], make([]*abi.Device, 0, len(p.devices))
	if len(p.devices) > len(few) {
		requests = make([]address.Device, 0, len(p.devices))
	}
	if topology.Flat {
		slices.SortStableFunc(p.devices, autoPlacedLast)
	}
	for i := range p.devices {
		if request, ok := p.pciRequest(&p.devices[i]); ok {
			requests, requesters = append(requests, request), append(requesters, &p.devices[i])
		}
	}
	if topology.Flat && p.usbBuses == 0 {
		requests, requesters = p.reserveUSBSlot(requests, requesters)
	}
	plan, errs := topology.Place(requests)
	p.errs = append(p.errs, errs...)
	behind := make([]*abi.Device, len(plan.Ports))
	places := make([]place, len(plan.Devices))
	for i, at := range plan.Devices {
		if !plan.Placed[i] || requesters[i] == nil { // nil is the slot that reserveUSBSlot keeps free
			continue
		}
		*requesters[i].Address = places[i].setPlace(at, plan.Multifunction(at))
		if at.Bus > 0 {
			behind[at.Bus-1] = requesters[i]
		}
	}
	p.writePorts(plan, behind)
}
