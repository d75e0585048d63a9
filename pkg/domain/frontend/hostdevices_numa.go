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
func (g *guest) mirrorsRecord() bool { return g.mirroring() && g.recordedCells() != nil }

// nearCells are the NUMA nodes of the host that the guest is to see devices next to, each with 1.
func (g *guest) nearCells() map[int]int {
	if !g.Defaults.HostDevicesByCell {
		return nil
	}
	near := map[int]int{}
	for _, cell := range g.Facts.HostDeviceCells {
		near[cell] = 1
	}
	return near
}

// beside is the NUMA node of the guest that a device is to be next to; nil where it may be anywhere.
func (p *placement) beside(d abi.Device) *uint {
	if d.Kind != "hostdev" || onUSB(d) || !p.Defaults.HostDevicesByCell || !p.mirroring() || p.pins[d.Key()].address != "" {
		return nil
	}
	cell := p.known(d)
	host, told := p.Facts.HostDeviceCells[d.Name]
	switch {
	case cell != nil || p.recorded(d.Key()).PCI != "": // a recorded one is where it was
		return cell
	case told:
		p.fail(field.Forbidden(p.at(d),
			fmt.Sprintf("the device is next to NUMA node %d of the host, where the VMI has no CPUs; give the VMI CPUs there or another device", host)))
	case d.Hostdev.SubsysPCI != nil:
		p.fail(field.Forbidden(p.at(d),
			"the host does not report the device's NUMA node, which numa.guestMappingPassthrough needs; use another device"))
	}
	return nil
}

// known is the NUMA node of the guest that stands for that of the host which a device is next to, if there is one.
func (p *placement) known(d abi.Device) *uint {
	host, told := p.Facts.HostDeviceCells[d.Name]
	if cell, mirrored := p.cells[host]; d.Kind == "hostdev" && told && mirrored {
		return &cell
	}
	return nil
}

// cellsByHost is the NUMA node of the guest for each of the host's that it mirrors: at the first boot those that were chosen. Later
// the devices that the guest has tell it, and for a new device next to another NUMA node the first one left whose CPUs fit. Stage 3
// finds room for the guest's NUMA nodes in just this way, or refuses the start.
func (p *placement) cellsByHost(t address.PCIe) map[int]uint {
	out := map[int]uint{}
	if !p.mirrorsRecord() {
		sockets, _, cores, threads := p.topology()
		for i, s := range p.choose(sockets*cores, threads) {
			out[s.ID] = uint(i)
		}
		return out
	}
	taken := map[uint]bool{}
	for _, d := range p.devices {
		host, told := p.Facts.HostDeviceCells[d.Name]
		cell := p.recordedCell(d, t)
		if _, known := out[host]; d.Kind == "hostdev" && told && cell != nil && !known {
			out[host], taken[*cell] = *cell, true
		}
	}
	for _, d := range p.devices {
		host, told := p.Facts.HostDeviceCells[d.Name]
		if _, known := out[host]; d.Kind != "hostdev" || !told || known {
			continue
		}
		for i, c := range p.recordedCells() {
			if !taken[uint(i)] && p.startingCPUs(c.cpus) <= p.hostCPUs(host) {
				out[host], taken[uint(i)] = uint(i), true
				break
			}
		}
	}
	return out
}

// recordedCell is that of the expander bus which a device was behind.
func (p *placement) recordedCell(d abi.Device, t address.PCIe) *uint {
	at, err := address.ParsePCI(p.recorded(d.Key()).PCI)
	if err != nil {
		return nil
	}
	port, err := address.ParsePCI(t.Ports[at.Bus])
	if err != nil {
		return nil
	}
	return t.Expanders[port.Bus].Cell
}

// startingCPUs is how many of some CPUs the guest has from the start.
func (g *guest) startingCPUs(of cpuset.CPUSet) uint {
	return uint(of.Intersection(between(0, g.cpus())).Size())
}

func (g *guest) hostCPUs(cell int) uint {
	for _, c := range g.Facts.NUMA {
		if c.ID == cell {
			return c.CPUs
		}
	}
	return 0
}
