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

// at is the field to which errors about a tenant belong.
func (t tenant) at() *field.Path {
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
	of map[place]tenant
	// functions has a bit for each function that is taken in each slot of the root bus. It is not a map because most lookups are on the root bus.
	functions [slots]uint8
}

func newTenants(n int) tenants { return tenants{of: make(map[place]tenant, n)} }

func (t *tenants) set(at PCI, who tenant) {
	t.of[at.place()] = who
	if at.Bus == 0 {
		t.functions[at.Slot] |= 1 << at.Function
	}
}

func (t *tenants) remove(at PCI) {
	delete(t.of, at.place())
	if at.Bus == 0 {
		t.functions[at.Slot] &^= 1 << at.Function
	}
}

func (t *tenants) taken(at PCI) bool {
	if at.Bus == 0 {
		return t.functions[at.Slot]&(1<<at.Function) != 0
	}
	_, taken := t.of[at.place()]
	return taken
}

// place is a PCI address as one number, which maps find faster.
type place uint32

func (a PCI) place() place { return place(a.Bus<<8 | a.Slot<<3 | a.Function) } //nolint:gosec // a bus has 8 bits, a slot 5 and a function 3

// frozen puts devices back where an earlier boot had them.
func (b *board) frozen(devices []Device) {
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
		if err != nil || !b.fits(d, at) {
			continue // another kind of device under this name, which needs another kind of place
		}
		if owner, ok := b.owner.of[at.place()]; ok {
			b.errs = append(b.errs, field.Invalid(owner.at(), at.String(),
				"used by '"+d.Path.String()+"' since an earlier boot: choose another"))
			continue
		}
		b.take(i, d, at)
	}
}

func (b *board) fits(d *Device, at PCI) bool {
	if d.Where == OnRootBus {
		return at.Bus == 0 && (b.slot[at.Slot] == empty || b.slot[at.Slot] == single)
	}
	return at.Bus > 0 && at.Bus <= uint(len(b.plan.Ports)) && !b.expands(at.Bus) && (at.Slot > 0) == (b.bridged[at.Bus] != nil)
}

func (b *board) preferred(devices []Device) {
	for i := range devices {
		d := &devices[i]
		if !b.plan.Placed[i] && d.Pin == "" && d.Preferred != nil && b.slot[d.Preferred.Slot] == empty {
			b.take(i, d, *d.Preferred)
		}
	}
}

// added finds places for devices that have none yet, in the order of the devices: holes first, then new ports.
func (b *board) added(devices []Device) {
	for i := range devices {
		d := &devices[i]
		if b.plan.Placed[i] || d.Pin != "" || d.NUMANode != nil {
			continue
		}
		at, ok := b.free(d.Where)
		if !ok {
			b.errs = append(b.errs, field.Invalid(d.Path, d.Key, "no PCI address is left: remove devices, or use bus 'scsi' for disks"))
			continue
		}
		b.take(i, d, at)
	}
}

func (b *board) free(where Where) (PCI, bool) {
	switch {
	case where == OnRootBus:
		return b.freeSlot()
	case where == OnBridge:
		return b.onBridge()
	}
	for ; b.freePort < len(b.plan.Ports); b.freePort++ {
		if !b.plan.Occupied[b.freePort] && b.below(b.freePort) {
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
