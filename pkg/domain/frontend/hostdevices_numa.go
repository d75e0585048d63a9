package frontend

import (
	"fmt"

	"github.com/kilnvm/kiln/pkg/address"
	"github.com/kilnvm/kiln/pkg/domain/abi"
	"github.com/kilnvm/kiln/pkg/internal/vm"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/cpuset"
)

// Owns the NUMA affinity of host devices (feature gate PCINUMAAwareTopology).
//
// As in KubeVirt, only guests that mirror NUMA nodes of the host see it, and one whose devices are elsewhere does not start, since its
// software would place its work wrongly. The first boot decides; the record keeps it. A device at an address of the user's is there.

// mirroring reports whether the guest mirrors NUMA nodes of a host.
func (g *guest) mirroring() bool {
	return vm.MirrorsNUMA(g.spec.Domain.CPU) && !g.arch.ccw
}

// mirrorsRecord reports whether the guest mirrors the recorded NUMA nodes of its first boot.
func (g *guest) mirrorsRecord() bool { return g.mirroring() && g.recordedNUMANodes() != nil }

// nodesWithDevices are the NUMA nodes of the host that the guest is to see devices next to, each with 1.
func (g *guest) nodesWithDevices() map[int]int {
	if !g.Defaults.HostDevicesByNUMANode {
		return nil
	}
	near := map[int]int{}
	for _, node := range g.Facts.HostDeviceNUMANodes {
		near[node] = 1
	}
	return near
}

// numaNodeFor is the NUMA node of the guest that a device is to be next to; nil where it may be anywhere.
func (p *placement) numaNodeFor(d abi.Device) *uint {
	if d.Kind != "hostdev" || onUSB(d) || !p.Defaults.HostDevicesByNUMANode || !p.mirroring() || p.pins[d.Key()].address != "" {
		return nil
	}
	node := p.guestNodeOf(d)
	host, told := p.Facts.HostDeviceNUMANodes[d.Name]
	switch {
	case node != nil || p.recorded(d.Key()).PCI != "": // a recorded one is where it was
		return node
	case told:
		p.fail(field.Forbidden(p.at(d),
			fmt.Sprintf("the device is next to NUMA node %d of the host, where the VMI has no CPUs; give the VMI CPUs there or another device", host)))
	case d.Hostdev.SubsysPCI != nil:
		p.fail(field.Forbidden(p.at(d),
			"the host does not report the device's NUMA node, which numa.guestMappingPassthrough needs; use another device"))
	}
	return nil
}

// guestNodeOf is the NUMA node of the guest that stands for that of the host which a device is next to, if there is one.
func (p *placement) guestNodeOf(d abi.Device) *uint {
	host, told := p.Facts.HostDeviceNUMANodes[d.Name]
	if node, mirrored := p.nodes[host]; d.Kind == "hostdev" && told && mirrored {
		return &node
	}
	return nil
}

// nodesByHost is the NUMA node of the guest for each of the host's that it mirrors: at the first boot those that were chosen. Later
// the devices that the guest has tell it, and for a new device next to another NUMA node the first one left whose CPUs fit. Stage 3
// finds room for the guest's NUMA nodes in just this way, or refuses the start.
func (p *placement) nodesByHost(t address.PCIe) map[int]uint {
	out := map[int]uint{}
	if !p.mirrorsRecord() {
		sockets, _, cores, threads := p.topology()
		for i, s := range p.chooseNUMANodes(sockets*cores, threads) {
			out[s.ID] = uint(i)
		}
		return out
	}
	taken := map[uint]bool{}
	for _, d := range p.devices {
		host, told := p.Facts.HostDeviceNUMANodes[d.Name]
		node := p.recordedNUMANode(d, t)
		if _, known := out[host]; d.Kind == "hostdev" && told && node != nil && !known {
			out[host], taken[*node] = *node, true
		}
	}
	for _, d := range p.devices {
		host, told := p.Facts.HostDeviceNUMANodes[d.Name]
		if _, known := out[host]; d.Kind != "hostdev" || !told || known {
			continue
		}
		for i, c := range p.recordedNUMANodes() {
			if !taken[uint(i)] && p.startingCPUs(c.cpus) <= p.hostCPUs(host) {
				out[host], taken[uint(i)] = uint(i), true
				break
			}
		}
	}
	return out
}

// recordedNUMANode is that of the expander bus which a device was behind.
func (p *placement) recordedNUMANode(d abi.Device, t address.PCIe) *uint {
	at, err := address.ParsePCI(p.recorded(d.Key()).PCI)
	if err != nil {
		return nil
	}
	port, err := address.ParsePCI(t.Ports[at.Bus])
	if err != nil {
		return nil
	}
	return t.Expanders[port.Bus].NUMANode
}

// startingCPUs is how many of some CPUs the guest has from the start.
func (g *guest) startingCPUs(of cpuset.CPUSet) uint {
	return uint(of.Intersection(between(0, g.cpus())).Size())
}

func (g *guest) hostCPUs(node int) uint {
	for _, c := range g.Facts.NUMA {
		if c.ID == node {
			return c.CPUs
		}
	}
	return 0
}
