package address

import (
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// A guest that mirrors NUMA nodes of its host learns from the bus of a device which NUMA node the device is next to. Each such NUMA node has an expander bus,
// with a root port for each device. The expander sits in a slot of the root bus, and has an index like root ports. For the guest it is one more root bus, with
// bus numbers of its own.

// Expander is an expander bus.
type Expander struct {
	// BusNr is its bus number for the guest. Its ports have the numbers after it, up to the number of the next expander.
	BusNr uint
	// NUMANode is the NUMA node of the guest that its devices are next to; nil if the guest no longer has the NUMA node.
	NUMANode *uint
}

const (
	buses = 256 // numbers of a PCI domain
	// window is the count of bus numbers of an expander: its own and 15 for ports. A device that is added later must not change the number of any bus.
	// Therefore an expander cannot begin just below the last port that the guest has today.
	window = 16
)

// readExpanders finds the expanders of an earlier boot.
func (b *board) readExpanders() {
	b.lowest = buses
	if len(b.Expanders) == 0 {
		return
	}
	b.plan.Expanders = map[uint]Expander{}
	for index, e := range b.Expanders {
		if at, err := ParsePCI(b.Ports[index]); err == nil && at.Bus == 0 && index <= MaxPorts && e.BusNr > 0 && e.BusNr < buses {
			b.plan.Expanders[index], b.lowest = e, min(b.lowest, e.BusNr)
		}
	}
}

func (b *board) isExpander(index uint) bool {
	_, ok := b.plan.Expanders[index]
	return ok
}

// placeExpander puts an expander bus into a slot of the root bus. No device can be in it but its ports.
func (b *board) placeExpander(index uint, at PCI) {
	b.plan.Ports[index-1], b.plan.Occupied[index-1] = at, true
	b.slot[at.Slot] = single
	b.owner.setTenant(at, tenant{port: uint32(index)})
	b.apart++
}

// placeExpanderPort puts a root port onto an expander bus.
func (b *board) placeExpanderPort(index uint, at PCI) {
	b.plan.Ports[index-1] = at
	b.owner.setTenant(at, tenant{port: uint32(index)})
	b.apart++
}

// placeOnNUMANodes places the devices that are next to a NUMA node. They come after all others, so that the places of these do not depend on them.
func (b *board) placeOnNUMANodes(devices []Device) {
	for i := range devices {
		d := &devices[i]
		if b.plan.Placed[i] || d.Pin != "" || d.NUMANode == nil {
			continue
		}
		at, ok := b.freeOnNUMANode(*d.NUMANode)
		if !ok {
			b.errs = append(b.errs, field.Invalid(d.Path, d.Key, fmt.Sprintf("no PCI bus is left for NUMA node %d of the guest: remove devices", *d.NUMANode)))
			continue
		}
		b.placeDevice(i, d, at)
	}
}

// freeOnNUMANode returns a place next to a NUMA node: behind a port whose device is gone, else behind a new port, on a new expander if necessary.
func (b *board) freeOnNUMANode(node uint) (PCI, bool) {
	full := map[uint]uint{} // ports by expander
	for i, at := range b.plan.Ports {
		if !b.isExpander(at.Bus) {
			continue
		}
		full[at.Bus]++
		if on := b.plan.Expanders[at.Bus].NUMANode; !b.plan.Occupied[i] && on != nil && *on == node {
			return PCI{Bus: uint(i + 1)}, true
		}
	}
	for _, index := range slices.Sorted(maps.Keys(b.plan.Expanders)) {
		if e := b.plan.Expanders[index]; e.NUMANode != nil && *e.NUMANode == node && full[index] < b.portCapacity(e) {
			return b.portOf(index)
		}
	}
	index, ok := b.addExpander(node)
	if !ok {
		return PCI{}, false
	}
	return b.portOf(index)
}

// portCapacity returns how many ports can get a bus number on an expander.
func (b *board) portCapacity(e Expander) uint {
	next := uint(buses)
	for _, other := range b.plan.Expanders {
		if other.BusNr > e.BusNr {
			next = min(next, other.BusNr)
		}
	}
	return min(next-e.BusNr-1, slots)
}

// portOf adds a port to an expander and returns the place behind it.
func (b *board) portOf(expander uint) (PCI, bool) {
	for slot := range uint(slots) {
		at := PCI{Bus: expander, Slot: slot}
		if b.owner.isTaken(at) || len(b.plan.Ports) == MaxPorts {
			continue
		}
		b.growPorts(uint(len(b.plan.Ports) + 1))
		b.placeExpanderPort(uint(len(b.plan.Ports)), at)
		return PCI{Bus: uint(len(b.plan.Ports))}, true
	}
	return PCI{}, false
}

// addExpander takes the bus numbers below the numbers of the other expanders. It returns false if these are not above what the root bus needs.
func (b *board) addExpander(node uint) (uint, bool) {
	at, ok := b.freeSlot()
	if !ok || b.lowest <= window+b.busesBelowRoot() || len(b.plan.Ports) == MaxPorts {
		return 0, false
	}
	b.lowest -= window
	b.growPorts(uint(len(b.plan.Ports) + 1))
	index := uint(len(b.plan.Ports))
	if b.plan.Expanders == nil {
		b.plan.Expanders = map[uint]Expander{}
	}
	b.plan.Expanders[index] = Expander{BusNr: b.lowest, NUMANode: &node}
	b.placeExpander(index, at)
	return index, true
}

// busesBelowRoot returns the number of buses below the root bus. They are numbered from 1.
func (b *board) busesBelowRoot() uint { return uint(len(b.plan.Ports)) - b.apart }
