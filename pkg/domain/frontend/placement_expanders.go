package frontend

import (
	"github.com/kilnvm/kiln/pkg/address"
	"github.com/kilnvm/kiln/pkg/record"
	"libvirt.org/go/libvirtxml"
)

// Owns what the record says of root ports and expander buses; the latter are for devices that hostdevices_numa.go puts next to a
// NUMA node of a guest that mirrors NUMA nodes.

// recordedTopology is what the allocator must know of earlier boots.
func (p *placement) recordedTopology() address.PCIe {
	topology := address.PCIe{Flat: p.flat(), Reserved: address.Reserved[p.spec.Architecture], Free: p.Defaults.FreePorts}
	if f := p.Frozen; f != nil {
		// The hotplug reserve is that of the first boot: an upgrade that keeps more must not add ports to old guests.
		topology.Free = f.FreePorts
		topology.Frozen = make(map[string]string, len(f.Devices))
		topology.Ports = map[uint]string{}
		for key, a := range f.Devices {
			if index, ok := record.Port(key); ok {
				topology.Ports[index] = a.PCI
			} else if a.PCI != "" {
				topology.Frozen[key] = a.PCI
			}
		}
		topology.Expanders = p.expanders()
	}
	if p.Defaults.HostDevicesByNUMANode && p.mirroring() || len(topology.Expanders) > 0 {
		p.nodes = p.nodesByHost(topology)
		p.reassignExpanders(topology)
	}
	return topology
}

// expanders are those of the record.
func (p *placement) expanders() map[uint]address.Expander {
	var out map[uint]address.Expander
	for key, a := range p.Frozen.Devices {
		if a.Expander == "" {
			continue
		}
		index, ok := record.Port(key)
		if e, err := address.ParseExpander(a.Expander); ok && err == nil {
			if out == nil {
				out = map[uint]address.Expander{}
			}
			out[index] = e
		}
	}
	return out
}

// reassignExpanders assigns expanders to new NUMA nodes after the owner changed the guest's nodes: each takes the node of its first device with a known
// one. No expander moves.
func (p *placement) reassignExpanders(t address.PCIe) {
	if len(t.Expanders) == 0 || p.mirrorsRecord() {
		return
	}
	for index, e := range t.Expanders {
		e.NUMANode = nil
		t.Expanders[index] = e
	}
	for _, d := range p.devices {
		at, err := address.ParsePCI(p.recorded(d.Key()).PCI)
		if err != nil {
			continue
		}
		port, err := address.ParsePCI(t.Ports[at.Bus])
		if e, ok := t.Expanders[port.Bus]; err == nil && ok && e.NUMANode == nil && p.mirroring() {
			e.NUMANode = p.guestNodeOf(d)
			t.Expanders[port.Bus] = e
		}
	}
}

// expander is the bus as libvirt spells it.
func (p *placement) expander(index uint, at address.PCI, e address.Expander) {
	c := p.controller("pci", index, "pcie-expander-bus")
	c.PCI = &libvirtxml.DomainControllerPCI{
		Model:  &libvirtxml.DomainControllerPCIModel{Name: "pxb-pcie"},
		Target: &libvirtxml.DomainControllerPCITarget{BusNr: &e.BusNr, NUMANode: e.NUMANode},
	}
	c.Address = libvirtPCI(at, false)
}
