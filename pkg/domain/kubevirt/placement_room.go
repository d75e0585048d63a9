package kubevirt

import (
	"github.com/beevik/etree"
	"github.com/kilnvm/kiln/pkg/address"
)

// Room for what is recorded: what the record does not have gives way.

// makeRoom takes the address from what the record does not have and that is where something recorded belongs. libvirt finds another, but for guests without
// root ports, whose devices it would put behind one.
func (b *board) makeRoom(added []*device) {
	for _, e := range b.list.ChildElements() {
		if _, recorded := b.models[index(e)]; isPort(e) && index(e) > 0 && !recorded && b.occupied(e) {
			dropAddress(e)
		}
	}
	used := map[uint]bool{0: true, 1: true, 0x1b: true, 0x1f: true} // the machine's own, and where the chipset has video and sound
	for at := range b.owner {
		used[at.Slot] = used[at.Slot] || at.Bus == 0
	}
	for _, e := range b.list.ChildElements() {
		if at, ok := pciOf(e); ok && at.Bus == 0 && !b.occupied(e) {
			used[at.Slot] = true
		}
	}
	for _, d := range added {
		switch {
		case !d.takesPCI() || !b.occupied(d.Element):
		case b.flat():
			slot := uint(0)
			for used[slot] {
				slot++
			}
			if slot > 0x1f {
				b.fail(d.String(), "no slot of the root bus is free")
				continue
			}
			used[slot] = true
			setPCI(d.Element, address.PCI{Slot: slot})
		default:
			dropAddress(d.Element)
		}
	}
}

// occupied reports whether an element that the record does not have is where something recorded belongs.
func (b *board) occupied(e *etree.Element) bool {
	at, ok := pciOf(e)
	if !ok {
		return false
	}
	_, taken := b.owner[at]
	return taken
}

// pciOf returns the PCI address of an element.
func pciOf(e *etree.Element) (address.PCI, bool) {
	of := e.SelectElement("address")
	if of == nil || of.SelectAttrValue("type", "") != "pci" {
		return address.PCI{}, false
	}
	bus, first := number(of, "bus")
	slot, second := number(of, "slot")
	function, third := number(of, "function")
	return address.PCI{Bus: bus, Slot: slot, Function: function}, first && second && third
}
