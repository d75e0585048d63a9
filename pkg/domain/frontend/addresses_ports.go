package frontend

import (
	"slices"

	"github.com/kilnvm/kiln/pkg/address"
	"github.com/kilnvm/kiln/pkg/domain/abi"
	"github.com/kilnvm/kiln/pkg/internal/vm"
	"github.com/kilnvm/kiln/pkg/record"
	v1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"
)

// Owns the root bus, its ports and bridges, and what libvirtxml has pointers to of PCI addresses.
// QEMU: docs/pcie.txt. libvirt: "Controllers" and "Device Addresses".

// writePorts writes the root bus and its ports. Chassis numbers are the indices; port numbers encode slot and function, as in libvirt.
// A port whose device must not be unplugged has hotplug 'off', as in KubeVirt (virtwrap/pci/hotplug.go): else the guest could eject its disks.
func (p *addressPlanner) writePorts(plan address.Plan, behind []*abi.Device) {
	p.dom.Devices.Controllers = slices.Grow(p.dom.Devices.Controllers, 1+len(plan.Ports))
	root := p.newController("pci", 0, "pcie-root")
	// Some old guests do not boot if the firmware maps large devices above 4 GiB. The annotation is KubeVirt's, for amd64.
	if p.spec.Architecture == "amd64" && p.VMI.Annotations[v1.DisablePCIHole64] == "true" {
		root.PCI = &libvirtxml.DomainControllerPCI{Hole64: &libvirtxml.DomainControllerPCIHole64{Unit: "KiB"}}
	}
	ports := make([]rootPort, len(plan.Ports))
	for i, at := range plan.Ports {
		index := uint(i + 1)
		if e, ok := plan.Expanders[index]; ok {
			p.addExpander(index, at, e)
			continue
		}
		if _, ok := plan.Expanders[at.Bus]; at.Bus > 0 && !ok { // a bridge, which must not be unplugged
			c := p.newController("pci", index, "pcie-to-pci-bridge")
			c.PCI = &libvirtxml.DomainControllerPCI{Model: &libvirtxml.DomainControllerPCIModel{Name: "pcie-pci-bridge"}}
			c.Address = libvirtPCI(at, false)
			continue
		}
		port := p.addController(libvirtxml.DomainController{Type: "pci", Model: "pcie-root-port"})
		ports[i].setPort(port, index, at, plan.Multifunction(at))
		if plan.Occupied[i] && !p.canUnplug(behind[i]) && !record.OmitsHotplug(p.Frozen, index) {
			port.PCI.Target.Hotplug = "off"
		}
	}
}

// rootPort is everything of a root port that libvirtxml has pointers to. All ports of a domain are one allocation: a VMI has a dozen and more.
type rootPort struct {
	pci         libvirtxml.DomainControllerPCI
	target      libvirtxml.DomainControllerPCITarget
	index, port uint
	place       place
}

// Parts that all ports and addresses share. Nothing may write to them.
var (
	rootPortModel = &libvirtxml.DomainControllerPCIModel{Name: "pcie-root-port"}
	pciDomain     uint
)

// setPort completes the controller of a root port.
func (r *rootPort) setPort(c *libvirtxml.DomainController, index uint, at address.PCI, multifunction bool) {
	r.index, r.port = index, at.Slot<<3|at.Function
	r.target.Chassis, r.target.Port = &r.index, &r.port
	r.pci.Model, r.pci.Target = rootPortModel, &r.target
	c.Index, c.PCI, c.Address = &r.index, &r.pci, r.place.setPlace(at, multifunction)
}

// canUnplug reports whether a device may be unplugged: interfaces, host devices, and disks whose volume has hotpluggable. nil is a bridge.
func (p *addressPlanner) canUnplug(d *abi.Device) bool {
	if d == nil || d.Disk == nil {
		return d != nil && (d.Kind == "interface" || d.Kind == "hostdev")
	}
	v := p.volumes[d.Name]
	return v != nil && vm.Hotpluggable(v)
}

// place is a PCI address with everything that libvirtxml has pointers to. The places of all devices are one allocation, and so are the places of root ports.
type place struct {
	address libvirtxml.DomainAddress
	pci     libvirtxml.DomainAddressPCI
	at      address.PCI
}

func libvirtPCI(at address.PCI, multifunction bool) *libvirtxml.DomainAddress {
	return new(place).setPlace(at, multifunction)
}

func (p *place) setPlace(at address.PCI, multifunction bool) *libvirtxml.DomainAddress {
	p.at = at
	p.pci = libvirtxml.DomainAddressPCI{Domain: &pciDomain, Bus: &p.at.Bus, Slot: &p.at.Slot, Function: &p.at.Function}
	if multifunction {
		p.pci.MultiFunction = "on"
	}
	p.address.PCI = &p.pci
	return &p.address
}
