package address

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// tenant of an address is a device with its path, or else a root port, or a bridge of an earlier boot.
type tenant struct {
	path         *field.Path
	port, bridge uint32
}

// errorPath returns the field for errors about a tenant.
func (t tenant) errorPath() *field.Path {
	if t.path == nil {
		return field.NewPath("spec", "domain", "devices")
	}
	return t.path
}

func (t tenant) String() string {
	if t.bridge > 0 {
		return fmt.Sprintf("bridge %d since an earlier boot", t.bridge)
	}
	if t.path == nil {
		return fmt.Sprintf("root port %d", t.port)
	}
	return t.path.String()
}

// tenants are what sits at PCI addresses.
type tenants struct {
	of map[placeNumber]tenant
	// functions has a bit for each function that is taken in each slot of the root bus. It is not a map because most lookups are on the root bus.
	functions [slots]uint8
}

func newTenants(n int) tenants { return tenants{of: make(map[placeNumber]tenant, n)} }

func (t *tenants) setTenant(at PCI, who tenant) {
	t.of[at.placeNumber()] = who
	if at.Bus == 0 {
		t.functions[at.Slot] |= 1 << at.Function
	}
}

func (t *tenants) removeTenant(at PCI) {
	delete(t.of, at.placeNumber())
	if at.Bus == 0 {
		t.functions[at.Slot] &^= 1 << at.Function
	}
}

func (t *tenants) isTaken(at PCI) bool {
	if at.Bus == 0 {
		return t.functions[at.Slot]&(1<<at.Function) != 0
	}
	_, taken := t.of[at.placeNumber()]
	return taken
}

// placeNumber is a PCI address as one number, which maps find faster.
type placeNumber uint32

func (a PCI) placeNumber() placeNumber { return placeNumber(a.Bus<<8 | a.Slot<<3 | a.Function) } //nolint:gosec // a bus has 8 bits, a slot 5 and a function 3

// placeFrozen puts devices back where an earlier boot had them.
func (b *board) placeFrozen(devices []Device) {
	if len(b.Frozen) == 0 {
		return
	}
	for i := range devices {
		d := &devices[i]
		text := b.Frozen[d.Key]
		if b.plan.Placed[i] || d.Pin != "" || text == "" {
			continue
		}
		at, err := ParsePCI(text)
		if err != nil || !b.fitsDevice(d, at) {
			continue // another kind of device under this name, which needs another kind of place
		}
		if owner, ok := b.owner.of[at.placeNumber()]; ok {
			b.errs = append(b.errs, field.Invalid(owner.errorPath(), at.String(),
				"used by '"+d.Path.String()+"' since an earlier boot: choose another"))
			continue
		}
		b.placeDevice(i, d, at)
	}
}

func (b *board) fitsDevice(d *Device, at PCI) bool {
	if d.Where == OnRootBus {
		return at.Bus == 0 && (b.slot[at.Slot] == empty || b.slot[at.Slot] == single)
	}
	return at.Bus > 0 && at.Bus <= uint(len(b.plan.Ports)) && !b.isExpander(at.Bus) && (at.Slot > 0) == (b.bridged[at.Bus] != nil)
}

func (b *board) placePreferred(devices []Device) {
	for i := range devices {
		d := &devices[i]
		if !b.plan.Placed[i] && d.Pin == "" && d.Preferred != nil && b.slot[d.Preferred.Slot] == empty {
			b.placeDevice(i, d, *d.Preferred)
		}
	}
}

// placeAdded finds places for devices that have none yet, in the order of the devices: holes first, then new ports.
func (b *board) placeAdded(devices []Device) {
	for i := range devices {
		d := &devices[i]
		if b.plan.Placed[i] || d.Pin != "" || d.NUMANode != nil {
			continue
		}
		at, ok := b.freePlace(d.Where)
		if !ok {
			b.errs = append(b.errs, field.Invalid(d.Path, d.Key, "no PCI address is left: remove devices, or use bus 'scsi' for disks"))
			continue
		}
		b.placeDevice(i, d, at)
	}
}

func (b *board) freePlace(where Where) (PCI, bool) {
	switch {
	case where == OnRootBus:
		return b.freeSlot()
	case where == OnBridge:
		return b.freeOnBridge()
	}
	for ; b.freePort < len(b.plan.Ports); b.freePort++ {
		if !b.plan.Occupied[b.freePort] && b.isBelowRoot(b.freePort) {
			return PCI{Bus: uint(b.freePort + 1)}, true
		}
	}
	if !b.addPort() {
		return PCI{}, false
	}
	return PCI{Bus: uint(len(b.plan.Ports))}, true
}

// soundSlot is where ICH9 has its sound device.
const soundSlot = 0x1b

// freeSlot searches from the top, away from the root ports, which grow from below.
func (b *board) freeSlot() (PCI, bool) {
	if b.Flat {
		for ; b.portSlot < slots; b.portSlot++ {
			if b.slot[b.portSlot] == empty && b.portSlot != soundSlot {
				return PCI{Slot: b.portSlot}, true
			}
		}
		return PCI{}, false
	}
	for ; b.rootSlot > 0; b.rootSlot-- {
		if b.slot[b.rootSlot] == empty {
			return PCI{Slot: b.rootSlot}, true
		}
	}
	return PCI{}, false
}
