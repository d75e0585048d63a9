package address

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Where says which kind of place a device needs.
type Where int

const (
	// BehindPort is for virtio and other PCI Express devices. Each has a root port of its own, where it can be hot-plugged.
	BehindPort Where = iota
	// OnRootBus is for conventional PCI devices and for devices of the chipset. They cannot be hot-plugged.
	OnRootBus
	// OnBridge is for devices that need IO ports. Each root port takes 4 KiB of the 64 KiB of IO ports, and firmware does not start a guest that needs more.
	// Devices on a bridge share its 4 KiB.
	OnBridge
)

// Device asks for a PCI address.
type Device struct {
	// Key names the device in the record of earlier boots.
	Key   string
	Where Where
	// Pin is the address that the user wrote, else empty. Path is the field with the address, else the field of the device.
	Pin  string
	Path *field.Path
	// Preferred is the place of such a device in the real chipset. A new device without a pin gets it if it is free.
	Preferred *PCI
	// Fixed devices are part of the machine type: QEMU creates them at Preferred in any case, and no other device may be there.
	Fixed bool
	// NUMANode is the NUMA node of the guest on whose buses a new device is placed; nil for any bus.
	NUMANode *uint
}

// PCIe is the PCI Express topology of a guest: a root bus with single devices and root ports.
type PCIe struct {
	// Reserved slots of the root bus hold the machine's own devices.
	Reserved []uint
	// Frozen addresses of an earlier boot, by key, and of its root ports, bridges and expander buses by index from 1 on.
	Frozen map[string]string
	Ports  map[uint]string
	// Expanders has the entries of Ports that are expander buses.
	Expanders map[uint]Expander
	// Flat means that there are no root ports except for pinned devices. New devices are on the root bus, from slot 2 upwards, without the preferred addresses of
	// the chipset. Nothing can be plugged into such a guest.
	Flat bool
	// Free is how many empty root ports are kept for hot-plugging. There are fewer if the root bus is full. More empty ports at the end are removed.
	Free int
}

// Plan is the result of Place.
type Plan struct {
	// Devices has the address of each requested device, in their order. Placed is false for a device without an address.
	Devices []PCI
	Placed  []bool
	// Ports are the root ports, the bridges, each of which is behind a root port, and the expander buses. The number of the bus and the index of Ports[0] are 1.
	Ports []PCI
	// Expanders has the entries of Ports that are expander buses, by index.
	Expanders map[uint]Expander
	// sharedSlots are the slots of the root bus that have functions besides function 0. shared has such slots of other buses, by the address of function 0.
	sharedSlots [slots]bool
	shared      map[PCI]bool
	// Occupied reports for each port whether a device is behind it.
	Occupied []bool
}

// Multifunction reports whether a device has function 0 of a slot with other functions. QEMU requires multifunction=on for such a device.
func (p *Plan) Multifunction(at PCI) bool {
	switch {
	case at.Function > 0:
		return false
	case at.Bus == 0:
		return p.sharedSlots[at.Slot]
	}
	return p.shared[at]
}

// markShared records that other functions may be in the slot of function 0, which has this address.
func (p *Plan) markShared(at PCI) {
	switch {
	case at.Bus == 0:
		p.sharedSlots[at.Slot] = true
	case p.shared == nil:
		p.shared = map[PCI]bool{at: true}
	default:
		p.shared[at] = true
	}
}

// MaxPorts is how many buses a guest can have below the root bus: root ports, bridges and expander buses.
const MaxPorts = 254

const (
	slots     = 32 // of a PCI bus
	functions = 8  // of a slot
	firstPort = 2  // slot of the first root port: 0 is the host bridge and 1 the video adapter's preferred one
)

// Place gives every device an address. The errors, at the paths of the devices, name addresses that are malformed, taken or not available.
func (t PCIe) Place(devices []Device) (Plan, field.ErrorList) {
	b := &board{PCIe: t, owner: newTenants(2 * len(devices)), bridged: map[uint]*field.Path{}, portSlot: firstPort, rootSlot: slots - 1,
		bridge: 1, bridgeSlot: 1}
	b.plan = Plan{Devices: make([]PCI, len(devices)), Placed: make([]bool, len(devices))}
	b.plan.Ports, b.plan.Occupied = make([]PCI, 0, len(devices)), make([]bool, 0, len(devices))
	for _, slot := range t.Reserved {
		b.slot[slot] = machine
	}
	// The order is the promise: what the user wrote, what was, what the chipset has, what is new.
	b.placeFixed(devices)
	b.readExpanders()
	b.findBridges(devices)
	b.placePinned(devices)
	b.placeFrozenPorts()
	b.placeFrozen(devices)
	b.placeBridges()
	b.placePreferred(devices)
	b.placeAdded(devices)
	b.addSparePorts()
	b.placeOnNUMANodes(devices)
	return b.plan, b.errs
}

// slotUse says what a slot of the root bus is for.
type slotUse uint8

const (
	empty   slotUse = iota
	machine         // the machine's own devices
	single          // devices without a port
	ports           // root ports
)

// board is the state of one call of Place.
type board struct {
	PCIe
	plan  Plan
	errs  field.ErrorList
	owner tenants
	// bridged are the buses of bridges, with the field that wants each.
	bridged map[uint]*field.Path
	slot    [slots]slotUse // of the root bus
	// portSlot and portFunction are where the search for the next root port continues, rootSlot where the search for a slot of a single device continues,
	// downwards. They only advance, so that all searches together take linear time.
	portSlot, portFunction uint
	rootSlot               uint
	freePort               int
	// apart is how many of the ports are not below the root bus: expanders and their ports. lowest is the lowest bus number of an expander.
	apart, lowest uint
	// bridge and bridgeSlot are where the search for a slot of a bridge continues.
	bridge, bridgeSlot uint
}

// placeDevice gives the device with an index the address.
func (b *board) placeDevice(i int, d *Device, at PCI) {
	b.plan.Devices[i], b.plan.Placed[i] = at, true
	b.owner.setTenant(at, tenant{path: d.Path})
	if at.Bus == 0 {
		if b.slot[at.Slot] == empty {
			b.slot[at.Slot] = single
		}
		return
	}
	b.plan.Occupied[at.Bus-1] = true
}

func (b *board) placeFixed(devices []Device) {
	for i := range devices {
		if d := &devices[i]; d.Fixed {
			b.placeDevice(i, d, *d.Preferred)
		}
	}
}

// placePinned places devices at the addresses that the user wrote. On the root bus, the user may choose any slot that the machine does not need. Behind a root
// port there is only slot 00, because a PCI Express link has only one. Behind a bridge, all slots but 00 are allowed.
func (b *board) placePinned(devices []Device) {
	for i := range devices {
		d := &devices[i]
		if d.Pin == "" {
			continue
		}
		at, err := ParsePCI(d.Pin)
		switch {
		case err != nil:
			b.errs = append(b.errs, field.Invalid(d.Path, d.Pin, err.Error()))
		case at.Bus > MaxPorts:
			b.errs = append(b.errs, field.Invalid(d.Path, d.Pin, "the bus must be from '00' to 'fe'"))
		case b.isExpander(at.Bus) || at.Bus >= b.lowest:
			b.errs = append(b.errs, field.Invalid(d.Path, d.Pin, "this bus is reserved for devices of a NUMA node since an earlier boot: choose another"))
		case b.bridged[at.Bus] != nil && at.Slot == 0:
			b.errs = append(b.errs, field.Invalid(d.Path, d.Pin, fmt.Sprintf("'%s' makes this bus a bridge: the slot must be from '01' to '1f'", b.bridged[at.Bus])))
		case b.bridged[at.Bus] == nil && at.Bus > 0 && at.Slot > 0:
			continue // said of the bridge that it would need
		case at.Bus == 0 && b.slot[at.Slot] == machine:
			b.errs = append(b.errs, field.Invalid(d.Path, d.Pin, "this slot is used by devices of the machine type: choose another"))
		case b.owner.isTaken(at):
			b.errs = append(b.errs, duplicateError(d, b.owner.of[at.placeNumber()]))
		default:
			b.growPorts(at.Bus)
			b.placeDevice(i, d, at)
		}
	}
	b.checkFunctionZero(devices)
}

// checkFunctionZero refuses a function without function 0 of its slot: the guest would find no function of the slot.
func (b *board) checkFunctionZero(devices []Device) {
	for i := range devices {
		d, at := &devices[i], b.plan.Devices[i]
		if d.Pin == "" || !b.plan.Placed[i] || at.Function == 0 {
			continue
		}
		zero := PCI{Bus: at.Bus, Slot: at.Slot}
		if !b.owner.isTaken(zero) {
			b.errs = append(b.errs, field.Invalid(d.Path, d.Pin,
				fmt.Sprintf("no device has function 0 of this slot, '%s', without which the guest does not find the others: give it to a device", zero)))
		}
		b.plan.markShared(zero)
	}
}

func duplicateError(d *Device, by tenant) *field.Error {
	err := field.Duplicate(d.Path, d.Pin)
	err.Detail = fmt.Sprintf("already used by '%s': choose another", by)
	return err
}
