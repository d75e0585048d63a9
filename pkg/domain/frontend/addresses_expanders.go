package frontend

import (
	"github.com/kilnvm/kiln/pkg/address"
	"github.com/kilnvm/kiln/pkg/record"
	"libvirt.org/go/libvirtxml"
)

// Owns the recorded root ports, and the expander buses (pxb-pcie) that hostdevices_numa.go needs for host devices on a NUMA node of the guest.
// KubeVirt: converter/pci-placement.go, one expander for each NUMA node of the guest, with bus numbers counted down from 255.
// QEMU: docs/pcie.txt and docs/pci_expander_bridge.txt.

// recordedTopology returns the PCI topology of earlier boots, from which the allocator starts.
func (p *addressPlanner) recordedTopology() address.PCIe {
	topology := address.PCIe{Flat: p.isFlat(), Reserved: address.Reserved[p.spec.Architecture], Free: p.Defaults.FreePorts}
	if f := p.Frozen; f != nil {
		// A guest keeps the number of free root ports of its first boot. After an upgrade with another default, recorded VMIs must not get new ports.
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
		topology.Expanders = p.recordedExpanders()
	}
	if p.Defaults.HostDevicesByNUMANode && p.mirrorsNUMA() || len(topology.Expanders) > 0 {
		p.nodes = p.nodesByHost(topology)
		p.reassignExpanders(topology)
	}
	return topology
}

// recordedExpanders returns the recorded expander buses by the index of their controller. An entry that does not parse is left out: pkg/record has judged
// the record before.
func (p *addressPlanner) recordedExpanders() map[uint]address.Expander {
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

// reassignExpanders assigns the recorded expanders to new NUMA nodes after the owner changed the guest's nodes. Each takes the node of its first
// device whose node is known. No expander moves, because the addresses of all devices behind it would.
func (p *addressPlanner) reassignExpanders(t address.PCIe) {
	if len(t.Expanders) == 0 || p.mirrorsRecord() {
		return
	}
	for index, e := range t.Expanders {
		e.NUMANode = nil
		t.Expanders[index] = e
	}
	for i := range p.devices {
		d := &p.devices[i]
		at, err := address.ParsePCI(p.recordedAddress(d.Key()).PCI)
		if err != nil {
			continue
		}
		port, err := address.ParsePCI(t.Ports[at.Bus])
		if e, ok := t.Expanders[port.Bus]; err == nil && ok && e.NUMANode == nil && p.mirrorsNUMA() {
			e.NUMANode = p.guestNodeOf(d)
			t.Expanders[port.Bus] = e
		}
	}
}

// addExpander adds an expander bus. libvirt: "Controllers", target busNr and node of model pcie-expander-bus.
func (p *addressPlanner) addExpander(index uint, at address.PCI, e address.Expander) {
	c := p.newController("pci", index, "pcie-expander-bus")
	c.PCI = &libvirtxml.DomainControllerPCI{
		Model:  &libvirtxml.DomainControllerPCIModel{Name: "pxb-pcie"},
		Target: &libvirtxml.DomainControllerPCITarget{BusNr: &e.BusNr, NUMANode: e.NUMANode},
	}
	c.Address = libvirtPCI(at, false)
}
