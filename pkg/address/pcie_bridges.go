package address

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Buses of conventional PCI are bridges behind a root port. There is one for devices that share its window of IO ports, and one for each bus on which a user
// has put a device on another slot than 00, such as 0000:81:01.0 in the API's documentation. libvirt requires the index of a bridge to be above the index of
// its port.

// findBridges finds the buses that must be bridges because of the user's addresses, and the recorded bridges.
func (b *board) findBridges(devices []Device) {
	for index, text := range b.Ports {
		if at, err := ParsePCI(text); err == nil && at.Bus > 0 && at.Bus < index && index <= MaxPorts && !b.isExpander(at.Bus) {
			b.bridged[index] = field.NewPath("an earlier boot")
			b.owner.setTenant(at, tenant{bridge: uint32(index)})
		}
	}
	for i := range devices {
		d := &devices[i]
		if d.Pin == "" {
			continue
		}
		at, err := ParsePCI(d.Pin)
		if err != nil || at.Bus == 0 || at.Bus > MaxPorts || at.Slot == 0 || b.bridged[at.Bus] != nil || b.isExpander(at.Bus) {
			continue
		}
		_, port := b.Ports[at.Bus]
		switch {
		case port:
			b.errs = append(b.errs, field.Invalid(d.Path, d.Pin, "this bus is behind a root port since an earlier boot, where only slot '00' exists: choose another"))
		case at.Bus == 1:
			b.errs = append(b.errs, field.Invalid(d.Path, d.Pin, "bus '01' is behind the first root port, where only slot '00' exists: choose bus '02' or above"))
		default:
			b.bridged[at.Bus] = d.Path
		}
	}
}

// placeBridges puts each bridge behind the root port that it had, or the first free one.
func (b *board) placeBridges() {
	for bus := uint(2); bus <= uint(len(b.plan.Ports)); bus++ {
		if b.bridged[bus] == nil {
			continue
		}
		port, ok := b.portBelow(bus)
		if !ok {
			b.errs = append(b.errs, field.Invalid(b.bridged[bus], fmt.Sprintf("%02x", bus), "no root port below this bus is free for its bridge: choose a higher bus"))
			continue
		}
		b.plan.Ports[bus-1], b.plan.Occupied[bus-1], b.plan.Occupied[port-1] = PCI{Bus: port}, true, true
	}
}

func (b *board) portBelow(bus uint) (uint, bool) {
	if at, err := ParsePCI(b.Ports[bus]); err == nil && at.Bus > 0 && at.Bus < bus && !b.plan.Occupied[at.Bus-1] {
		return at.Bus, true
	}
	for port := uint(1); port < bus; port++ {
		if !b.plan.Occupied[port-1] && b.bridged[port] == nil && b.isBelowRoot(int(port-1)) {
			return port, true
		}
	}
	return 0, false
}

// freeOnBridge returns a free slot of a bridge. Without one, it adds a bridge, which takes the root port that a device would have.
func (b *board) freeOnBridge() (PCI, bool) {
	for ; b.bridge <= uint(len(b.plan.Ports)); b.bridge, b.bridgeSlot = b.bridge+1, 1 {
		for ; b.bridged[b.bridge] != nil && b.bridgeSlot < slots; b.bridgeSlot++ {
			if at := (PCI{Bus: b.bridge, Slot: b.bridgeSlot}); !b.owner.isTaken(at) {
				return at, true
			}
		}
	}
	port, ok := b.freePlace(BehindPort)
	if !ok || len(b.plan.Ports) == MaxPorts || b.busesBelowRoot()+1 >= b.lowest {
		return PCI{}, false
	}
	b.plan.Occupied[port.Bus-1] = true
	index := uint(len(b.plan.Ports) + 1)
	b.growPorts(index)
	b.plan.Ports[index-1], b.plan.Occupied[index-1] = port, true
	b.bridged[index], b.bridge = tenant{}.errorPath(), index
	return PCI{Bus: index, Slot: 1}, true
}
