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
// KubeVirt: converter/pci-placement.go. libvirt: "Controllers", model pcie-expander-bus.
//
// As in KubeVirt, only guests with numa.guestMappingPassthrough see it. One of them whose devices are on other NUMA nodes does not start,
// because its software would place its work on the wrong node. The first boot decides; the record keeps it. A device with pciAddress keeps
// that address, whatever its NUMA node.

// mirrorsNUMA reports whether the VMI has numa.guestMappingPassthrough, which s390x does not support.
func (g *guest) mirrorsNUMA() bool {
	return vm.MirrorsNUMA(g.spec.Domain.CPU) && !g.arch.ccw
}

// mirrorsRecord reports whether the guest has the recorded NUMA nodes of its first boot.
func (g *guest) mirrorsRecord() bool { return g.mirrorsNUMA() && g.recordedNUMANodes() != nil }

// nodesWithDevices are the host's NUMA nodes that have host devices of the VMI, each with 1 to sort by. It is nil without the feature gate.
func (g *guest) nodesWithDevices() map[int]int {
	if !g.Defaults.HostDevicesByNUMANode {
		return nil
	}
	nodes := map[int]int{}
	for _, node := range g.Facts.HostDeviceNUMANodes {
		nodes[node] = 1
	}
	return nodes
}

// numaNodeFor returns the NUMA node of the guest that a new or recorded host device belongs to. It is nil for a device that belongs to none.
// A device whose node the VMI does not mirror is an error.
func (p *addressPlanner) numaNodeFor(d *abi.Device) *uint {
	if d.Kind != "hostdev" || onUSB(d) || !p.Defaults.HostDevicesByNUMANode || !p.mirrorsNUMA() || p.pinOf(d).address != "" {
		return nil
	}
	node := p.guestNodeOf(d)
	host, reported := p.Facts.HostDeviceNUMANodes[d.Name]
	switch {
	case node != nil || p.recordedAddress(d.Key()).PCI != "": // a recorded address does not move
		return node
	case reported:
		p.addError(field.Forbidden(p.pathOf(d),
			fmt.Sprintf("the device is next to NUMA node %d of the host, where the VMI has no CPUs; give the VMI CPUs there or another device", host)))
	case d.Hostdev.SubsysPCI != nil:
		p.addError(field.Forbidden(p.pathOf(d),
			"the host does not report the device's NUMA node, which numa.guestMappingPassthrough needs; use another device"))
	}
	return nil
}

// guestNodeOf returns the NUMA node of the guest that mirrors the host device's NUMA node; nil if no node does.
func (p *addressPlanner) guestNodeOf(d *abi.Device) *uint {
	host, reported := p.Facts.HostDeviceNUMANodes[d.Name]
	if node, mirrored := p.nodes[host]; d.Kind == "hostdev" && reported && mirrored {
		return &node
	}
	return nil
}

// nodesByHost maps each of the host's NUMA nodes that the guest mirrors to the guest's. At the first boot they are those that were chosen. At a
// later boot, which may be on another host, the guest's recorded devices decide; a device on a further node gets the first remaining node of
// the guest that fits its CPUs. mirrorNUMANodes of the backend finds the same assignment, or refuses the start.
func (p *addressPlanner) nodesByHost(t address.PCIe) map[int]uint {
	out := map[int]uint{}
	if !p.mirrorsRecord() {
		sockets, _, cores, threads := p.cpuTopology()
		for i, s := range p.chooseNUMANodes(sockets*cores, threads) {
			out[s.ID] = uint(i)
		}
		return out
	}
	taken := map[uint]bool{}
	for _, d := range p.devices {
		host, reported := p.Facts.HostDeviceNUMANodes[d.Name]
		node := p.recordedNUMANode(d, t)
		if _, mapped := out[host]; d.Kind == "hostdev" && reported && node != nil && !mapped {
			out[host], taken[*node] = *node, true
		}
	}
	for _, d := range p.devices {
		host, reported := p.Facts.HostDeviceNUMANodes[d.Name]
		if _, mapped := out[host]; d.Kind != "hostdev" || !reported || mapped {
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

// recordedNUMANode returns the NUMA node of the expander bus that the device has by the record: device, root port, expander. It is nil for a
// device elsewhere, and for one that is new.
func (p *addressPlanner) recordedNUMANode(d abi.Device, t address.PCIe) *uint {
	at, err := address.ParsePCI(p.recordedAddress(d.Key()).PCI)
	if err != nil {
		return nil
	}
	port, err := address.ParsePCI(t.Ports[at.Bus])
	if err != nil {
		return nil
	}
	return t.Expanders[port.Bus].NUMANode
}

// startingCPUs counts the CPUs of a set that are enabled at boot.
func (g *guest) startingCPUs(of cpuset.CPUSet) uint {
	return uint(of.Intersection(cpuRange(0, g.bootCPUs())).Size())
}

// hostCPUs returns how many CPUs of a NUMA node of the host the VMI may have.
func (g *guest) hostCPUs(node int) uint {
	for _, c := range g.Facts.NUMA {
		if c.ID == node {
			return c.CPUs
		}
	}
	return 0
}
