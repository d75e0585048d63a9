package kubevirt

import (
	"fmt"
	"maps"
	"slices"

	"github.com/beevik/etree"
	"github.com/kilnvm/kiln/pkg/address"
	"github.com/kilnvm/kiln/pkg/domain/abi"
	"github.com/kilnvm/kiln/pkg/hardware"
	"github.com/kilnvm/kiln/pkg/record"
)

// Addresses on PCI: root ports, bridges and expander buses by their index, which is the number of their bus, and the devices behind them.

// Models of PCI controllers.
const (
	rootPort    = "pcie-root-port"
	bridge      = "pcie-to-pci-bridge"
	expanderBus = "pcie-expander-bus"
)

// board is the PCI topology.
type board struct {
	*guest
	// owner of a place: a controller or a device in words.
	owner map[address.PCI]string
	// models of the recorded controllers by index.
	models map[uint]string
	places map[uint]address.PCI
}

// placePCIDevices restores the recorded places of PCI controllers and devices.
func (g *guest) placePCIDevices() {
	b := &board{guest: g, owner: map[address.PCI]string{}, models: map[uint]string{}, places: map[uint]address.PCI{}}
	for _, slot := range address.Reserved[g.vmi.Spec.Architecture] {
		for _, function := range []uint{0, 3} { // ICH9 has LPC and SMBus in slot 1f, and SATA at function 2
			b.owner[address.PCI{Slot: slot, Function: function}] = "the machine"
		}
	}
	b.readPorts()
	chosen, added := Chosen(g.vmi), []*device{}
	for _, d := range g.devices {
		if at, ok := pciOf(d.Element); ok && chosen[d.key] {
			b.claimPlace(at, d.String())
		}
	}
	var placed []*device
	for _, d := range g.devices {
		at, err := address.ParsePCI(d.recorded.PCI)
		switch {
		case chosen[d.key]:
		case err != nil || !d.takesPCI() || g.isFlat() && at.Bus > 0 || abi.Conventional(d.modelName()) && b.models[at.Bus] == rootPort:
			added = append(added, d) // another kind of device under this name, which needs another kind of place
		case b.placeExists(d, at) && b.claimPlace(at, d.String()):
			placed = append(placed, d)
		}
	}
	for _, d := range placed {
		at, _ := address.ParsePCI(d.recorded.PCI)
		setPCI(d.Element, at)
	}
	b.writePorts()
	b.freeRecordedAddresses(added)
	b.shareSlots()
}

// readPorts reads the controllers of the record, and claims their places.
func (b *board) readPorts() {
	buses := map[uint]record.Address{}
	for key, a := range b.frozen.Devices {
		if index, ok := record.Port(key); ok && a.PCI != "" {
			buses[index] = a
		}
	}
	for _, index := range slices.Sorted(maps.Keys(buses)) {
		at, err := address.ParsePCI(buses[index].PCI)
		name := fmt.Sprintf("root port %d", index)
		above := buses[at.Bus]
		switch {
		case err != nil: // record.Check has refused it
			continue
		case at.Bus > 0 && above.PCI == "":
			b.addError(name, "the record has it on bus %d, which has no controller", at.Bus)
		case buses[index].Expander != "":
			b.models[index] = expanderBus
		case at.Bus == 0 || above.Expander != "":
			b.models[index] = rootPort
		default:
			b.models[index] = bridge
		}
		b.claimPlace(at, name)
		b.places[index] = at
	}
}

// claimPlace takes a place for its owner. If another owner has the place, it adds an error and returns false.
func (b *board) claimPlace(at address.PCI, owner string) bool {
	if other, ok := b.owner[at]; ok {
		b.addError(owner, "its place %s is taken by %s", at, other)
		return false
	}
	b.owner[at] = owner
	return true
}

// placeExists reports whether the bus and slot of a recorded device exist, and adds an error if they do not.
func (b *board) placeExists(d *device, at address.PCI) bool {
	model, ok := b.models[at.Bus]
	switch {
	case at.Bus == 0:
		return true
	case !ok:
		b.addError(d.String(), "recorded at %s, and the record has no root port %d", at, at.Bus)
	case model == expanderBus:
		b.addError(d.String(), "recorded at %s, which is an expander bus: only root ports can be there", at)
	case model == rootPort && (at.Slot > 0 || at.Function > 0):
		b.addError(d.String(), "recorded at %s: behind a root port there is only slot 0", at)
	case model == bridge && at.Slot == 0:
		b.addError(d.String(), "recorded at %s: a bridge has no slot 0", at)
	default:
		return true
	}
	return false
}

// takesPCI reports whether a device has a PCI address, by its kind, its bus and its model.
func (d *device) takesPCI() bool {
	if at := d.SelectElement("address"); at != nil && !slices.Contains([]string{"", "pci"}, at.SelectAttrValue("type", "")) {
		return false
	}
	switch d.Tag {
	case "interface", "filesystem", "sound", "rng", "vsock":
		return true
	case "video":
		return d.modelName() != "ramfb"
	case "hostdev":
		return !d.onUSB()
	case "disk":
		return hardware.Bus(d.busName()).Address == hardware.OnPCI
	case "input":
		return d.busName() == "virtio"
	case "memballoon", "controller":
		return d.modelName() != "none"
	case "panic", "watchdog":
		return abi.Conventional(d.modelName())
	}
	return false
}

// setPCI writes an address.
func setPCI(e *etree.Element, at address.PCI) {
	setAddress(e, "pci", attr{"domain", "0x0000"}, attr{"bus", fmt.Sprintf("0x%02x", at.Bus)}, attr{"slot", fmt.Sprintf("0x%02x", at.Slot)},
		attr{"function", fmt.Sprintf("0x%x", at.Function)})
}

// shareSlots marks function 0 of each slot with more functions. KubeVirt's types lose the mark between two definitions.
func (b *board) shareSlots() {
	first, shared := map[address.PCI]*etree.Element{}, map[address.PCI]bool{}
	for _, e := range b.list.ChildElements() {
		if at, ok := pciOf(e); ok && at.Function == 0 {
			first[at] = e.SelectElement("address")
		} else if ok {
			shared[address.PCI{Bus: at.Bus, Slot: at.Slot}] = true
		}
	}
	for at, e := range first {
		if shared[at] {
			e.CreateAttr("multifunction", "on")
		}
	}
}

// writePorts puts the recorded controllers back, in the place of those with their index.
func (b *board) writePorts() {
	there := map[uint]*etree.Element{}
	for _, e := range b.list.ChildElements() {
		if isPort(e) {
			there[controllerIndex(e)] = e
		}
	}
	for _, i := range slices.Sorted(maps.Keys(b.models)) {
		e, model := there[i], b.models[i]
		switch {
		case e == nil:
			e = b.list.CreateElement("controller")
			e.CreateAttr("type", "pci")
			e.CreateAttr("index", formatDecimal(i))
			e.CreateAttr("model", model)
		case e.SelectAttrValue("model", model) != model:
			b.addError(fmt.Sprintf("PCI controller %d", i), "the record has a %s, and KubeVirt's domain a %s", model, e.SelectAttrValue("model", ""))
			continue
		}
		setPCI(e, b.places[i])
		if model == expanderBus {
			b.writeExpander(e, i)
		}
	}
}

// writeExpander writes bus number and NUMA node of an expander bus. libvirt: "Controllers", target busNr and node.
func (b *board) writeExpander(e *etree.Element, index uint) {
	of, err := address.ParseExpander(b.frozen.Devices[record.ControllerKey("pci", index)].Expander)
	if err != nil {
		return
	}
	if old := e.SelectElement("target"); old != nil {
		e.RemoveChild(old)
	}
	target := e.CreateElement("target")
	target.CreateAttr("busNr", formatDecimal(of.BusNr))
	if of.NUMANode != nil {
		target.CreateElement("node").SetText(formatDecimal(*of.NUMANode))
	}
}

// freeRecordedAddresses takes recorded addresses away from ports and devices that the record does not have. libvirt assigns others, except for guests without
// root ports: libvirt would put their devices behind a port, so that they get a slot of the root bus here.
func (b *board) freeRecordedAddresses(added []*device) {
	for _, e := range b.list.ChildElements() {
		if _, recorded := b.models[controllerIndex(e)]; isPort(e) && controllerIndex(e) > 0 && !recorded && b.isOccupied(e) {
			dropAddress(e)
		}
	}
	used := map[uint]bool{0: true, 1: true, 0x1b: true, 0x1f: true} // the machine's own, and where the chipset has video and sound
	for at := range b.owner {
		used[at.Slot] = used[at.Slot] || at.Bus == 0
	}
	for _, e := range b.list.ChildElements() {
		if at, ok := pciOf(e); ok && at.Bus == 0 && !b.isOccupied(e) {
			used[at.Slot] = true
		}
	}
	for _, d := range added {
		switch {
		case !d.takesPCI() || !b.isOccupied(d.Element):
		case b.isFlat():
			slot := uint(0)
			for used[slot] {
				slot++
			}
			if slot > 0x1f {
				b.addError(d.String(), "no slot of the root bus is free")
				continue
			}
			used[slot] = true
			setPCI(d.Element, address.PCI{Slot: slot})
		default:
			dropAddress(d.Element)
		}
	}
}

// isOccupied reports whether an element has an address that the record gives to another device or port.
func (b *board) isOccupied(e *etree.Element) bool {
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
	bus, first := parseNumber(of, "bus")
	slot, second := parseNumber(of, "slot")
	function, third := parseNumber(of, "function")
	return address.PCI{Bus: bus, Slot: slot, Function: function}, first && second && third
}
