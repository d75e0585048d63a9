package address

import "k8s.io/apimachinery/pkg/util/validation/field"

// Reserved are the slots of the root bus that hold the machine's own devices, by architecture.
var Reserved = map[string][]uint{
	"amd64": {0, 0x1f}, // host bridge; ICH9 with LPC, SATA and SMBus
	"arm64": {0},
	"s390x": {0}, // zPCI counts from 1
}

// Judge returns the errors of the addresses that a user wrote, without regard to other devices of the guest. For an unknown architecture, it returns only
// errors that the addresses have on every architecture with PCI Express.
func Judge(architecture string, pinned []Device) field.ErrorList {
	topology := PCIe{Reserved: Reserved[architecture]}
	if architecture == "s390x" {
		_, errs := topology.PlaceZPCI(pinned)
		return errs
	}
	_, errs := topology.Place(pinned)
	return errs
}

// OnZPCI reports whether the only PCI bus of a mainframe has the address.
func (a PCI) OnZPCI() bool { return a.Bus == 0 && a.Function == 0 }

// PlaceZPCI gives every device a place on the only PCI bus of an s390x guest: one function in each slot, without root ports. If there are errors, the plan
// lacks some devices.
func (t PCIe) PlaceZPCI(devices []Device) (Plan, field.ErrorList) {
	var errs field.ErrorList
	asked := make([]Device, 0, len(devices))
	for _, d := range devices {
		if at, err := ParsePCI(d.Pin); err == nil && !at.OnZPCI() {
			errs = append(errs, field.Invalid(d.Path, d.Pin, "architecture 's390x' has only PCI bus '00' and function '0': choose another address"))
			continue
		}
		d.Where = OnRootBus
		asked = append(asked, d)
	}
	plan, more := PCIe{Reserved: t.Reserved, Frozen: t.Frozen}.Place(asked)
	return plan, append(errs, more...)
}
