package address

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Root ports: where earlier boots had them, then for what the user pinned, for new devices, and for hot-plugging.

// growPorts adds entries for root ports up to a bus. Their own addresses are assigned later, when all pinned addresses are known.
func (b *board) growPorts(bus uint) {
	for uint(len(b.plan.Ports)) < bus {
		b.plan.Ports = append(b.plan.Ports, PCI{})
		b.plan.Occupied = append(b.plan.Occupied, false)
	}
}

// placeFrozenPorts puts root ports where they were. A pinned address in the middle must not move the ports behind it.
func (b *board) placeFrozenPorts() {
	b.growPorts(b.lastFrozenPort())
	for index := range b.plan.Ports {
		text, ok := b.Ports[uint(index+1)]
		if !ok || b.bridged[uint(index+1)] != nil {
			continue
		}
		at, err := ParsePCI(text)
		if err == nil && b.isExpander(at.Bus) && !b.owner.isTaken(at) {
			b.placeExpanderPort(uint(index+1), at)
			continue
		}
		if err != nil || at.Bus != 0 {
			continue // not of our writing: placed like a new one
		}
		if b.owner.isTaken(at) || b.slot[at.Slot] == single || b.slot[at.Slot] == machine {
			b.errs = append(b.errs, field.Invalid(b.pathOfSlot(at.Slot), at.String(),
				fmt.Sprintf("slot is used by %s since an earlier boot: choose another", b.portOwner(uint(index+1)))))
			continue
		}
		if b.isExpander(uint(index + 1)) {
			b.placeExpander(uint(index+1), at)
			continue
		}
		b.placePort(index, at)
	}
	for index, at := range b.plan.Ports {
		if at != (PCI{}) || b.bridged[uint(index+1)] != nil {
			continue
		}
		if at, ok := b.nextPort(); ok {
			b.placePort(index, at)
		} else if owner, ok := b.owner.of[PCI{Bus: uint(index + 1)}.placeNumber()]; ok {
			b.errs = append(b.errs, field.Invalid(owner.errorPath(), PCI{Bus: uint(index + 1)}.String(),
				"the root bus has no room for this many root ports: choose a lower bus"))
		}
	}
}

func (b *board) portOwner(index uint) string {
	if b.isExpander(index) {
		return fmt.Sprintf("expander bus %d", index)
	}
	return fmt.Sprintf("root port %d", index)
}

func (b *board) lastFrozenPort() uint {
	last := uint(0)
	for index := range b.Ports {
		if index <= MaxPorts {
			last = max(last, index)
		}
	}
	return last
}

// pathOfSlot returns the field of the first device in a slot of the root bus.
func (b *board) pathOfSlot(slot uint) *field.Path {
	for function := range uint(functions) {
		if owner, ok := b.owner.of[PCI{Slot: slot, Function: function}.placeNumber()]; ok {
			return owner.errorPath()
		}
	}
	return tenant{}.errorPath()
}

func (b *board) placePort(index int, at PCI) {
	b.plan.Ports[index] = at
	b.slot[at.Slot] = ports
	b.owner.setTenant(at, tenant{port: uint32(index + 1)})
	// Always, so that the second port of a slot does not change the first.
	if at.Function == 0 {
		b.plan.markShared(at)
	}
}

// isBelowRoot reports whether a port is placed, and on the root bus.
func (b *board) isBelowRoot(index int) bool {
	at := b.plan.Ports[index]
	return at.Bus == 0 && at != (PCI{})
}

func (b *board) addPort() bool {
	if len(b.plan.Ports) == MaxPorts || b.busesBelowRoot()+1 >= b.lowest {
		return false
	}
	at, ok := b.nextPort()
	if ok {
		b.growPorts(uint(len(b.plan.Ports) + 1))
		b.placePort(len(b.plan.Ports)-1, at)
	}
	return ok
}

// addSparePorts adds empty root ports until there are enough for hot-plugging, and removes empty ports at the end beyond the recorded number. Otherwise each
// device that comes and goes would leave a port for ever.
func (b *board) addSparePorts() {
	if b.Flat {
		return
	}
	missing := b.Free
	for i, occupied := range b.plan.Occupied {
		if !occupied && b.plan.Ports[i].Bus == 0 {
			missing--
		}
	}
	for ; missing > 0 && b.addPort(); missing-- {
	}
	for ; missing < 0 && b.lastIsSpare(); missing++ {
		last := len(b.plan.Ports) - 1
		b.owner.removeTenant(b.plan.Ports[last])
		b.plan.Ports, b.plan.Occupied = b.plan.Ports[:last], b.plan.Occupied[:last]
	}
}

// lastIsSpare reports whether the last of the buses is behind an empty root port of the root bus.
func (b *board) lastIsSpare() bool {
	last := len(b.plan.Ports) - 1
	index := uint(last + 1)
	return last >= 0 && !b.plan.Occupied[last] && b.isBelowRoot(last) && !b.isExpander(index) && b.bridged[index] == nil
}

// nextPort returns the next place for a root port: eight to a slot, from slot 2 upwards.
func (b *board) nextPort() (PCI, bool) {
	for ; b.portSlot < slots; b.portSlot, b.portFunction = b.portSlot+1, 0 {
		if b.slot[b.portSlot] != empty && b.slot[b.portSlot] != ports {
			continue
		}
		for ; b.portFunction < functions; b.portFunction++ {
			at := PCI{Slot: b.portSlot, Function: b.portFunction}
			if !b.owner.isTaken(at) {
				return at, true
			}
		}
	}
	return PCI{}, false
}
