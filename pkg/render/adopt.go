package render

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kilnvm/kiln/pkg/domain/abi"
	"github.com/kilnvm/kiln/pkg/record"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	v1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"
)

// Adopted is a domain of another program as the hardware of a VMI.
type Adopted struct {
	// Record is the hardware record with which the VMI keeps what it can of the domain.
	Record record.Record
	// Changes are the differences that the guest finds at its next boot.
	Changes []record.Change
	// Before is the domain: its devices have the names of the VMI's devices, and devices that the VMI does not have get names of their own. After is the
	// frontend of the next boot.
	Before, After *libvirtxml.Domain
}

// completeAddresses writes the parts of PCI addresses that are absent, and 0 to libvirt.
func completeAddresses(dom *libvirtxml.Domain) {
	for _, device := range abi.Devices(dom) {
		address := *device.Address
		if address == nil || address.PCI == nil {
			continue
		}
		for _, part := range []**uint{&address.PCI.Domain, &address.PCI.Bus, &address.PCI.Slot, &address.PCI.Function} {
			if *part == nil {
				*part = new(uint)
			}
		}
	}
}

// Places says what the addresses of a domain mean.
type Places int

const (
	// SamePlaces means that the record keeps the addresses.
	SamePlaces Places = iota
	// OtherBoard means that the domain has a machine type of another family, with other buses: the record has only identifiers and MACs.
	OtherBoard
	// Unplaced means that libvirt has not assigned addresses yet. Devices and controllers without an address are not compared by address, and controllers that
	// libvirt would add are no difference.
	Unplaced
)

// Adopt returns the record with which a VMI keeps the most hardware of a domain that another program made, and all differences that are left. m.VMI is
// explicit; m.Frozen is not used. omit has the next boot omit the defaults that the domain lacks, which only Kiln's renderer does. The errors are about the
// VMI.
func Adopt(m Machine, dom *libvirtxml.Domain, places Places, omit bool) (Adopted, field.ErrorList) {
	seen, err := copyDomain(dom)
	if err != nil {
		return Adopted{}, field.ErrorList{field.InternalError(nil, err)}
	}
	vmi := withIdentity(m.VMI, nil)
	fresh, errs := renderWith(m, vmi, nil)
	if len(errs) > 0 {
		return Adopted{}, errs
	}
	dropChipsetWatchdog(seen)
	completeAddresses(seen)
	copyAliases(seen, fresh)
	nameOthers(seen)
	readIgnition(seen)
	captured := abi.Freeze(seen, m.Defaults.Version)
	CaptureCPU(&captured, m.VMI, seen)
	if captured.TSC != 0 && record.Check(&record.Record{Defaults: captured.Defaults, Digest: captured.Digest, TSC: captured.TSC}) != nil {
		captured.TSC = 0 // no host has this frequency
	}
	if places == OtherBoard {
		captured.Machine = ""
		forgetPlaces(&captured)
	}
	vmi = withIdentity(m.VMI, &captured)
	again, errs := renderWith(m, vmi, &captured)
	if len(errs) > 0 { // controllers of USB 2, which no VM has
		forgetUSB(&captured)
		again, errs = renderWith(m, vmi, &captured)
	}
	if len(errs) > 0 { // a topology of buses that no VM has
		forgetPlaces(&captured)
		if again, errs = renderWith(m, vmi, &captured); len(errs) > 0 {
			return Adopted{}, errs
		}
	}
	if omit {
		if again, errs = omitDefaults(m, vmi, &captured, seen, again); len(errs) > 0 {
			return Adopted{}, errs
		}
	}
	if places == Unplaced {
		adoptPlaces(seen, again)
	}
	return compareAdopted(m, vmi, captured, seen, again), nil
}

// adoptPlaces gives a domain without addresses the places of the next boot, and the controllers and PS/2 devices that libvirt adds.
func adoptPlaces(seen, next *libvirtxml.Domain) {
	places, have := map[string]abi.Device{}, map[string]bool{}
	for _, device := range abi.Devices(next) {
		places[device.Key()] = device
	}
	seen.Devices.Controllers = slices.DeleteFunc(seen.Devices.Controllers, func(c libvirtxml.DomainController) bool { return c.Type == "pci" || c.Index == nil })
	for _, device := range abi.Devices(seen) {
		have[device.Key()] = true
		place := places[device.Key()]
		if place.Address == nil || *device.Address != nil {
			continue
		}
		*device.Address = *place.Address
		if device.Disk != nil && device.Disk.Target != nil && place.Disk.Target != nil && device.Disk.Target.Bus == place.Disk.Target.Bus {
			device.Disk.Target.Dev = place.Disk.Target.Dev
		}
	}
	for i := range next.Devices.Controllers {
		c := &next.Devices.Controllers[i]
		if c.Type != "scsi" && !have[record.ControllerKey(c.Type, ptr.Deref(c.Index, 0))] {
			seen.Devices.Controllers = append(seen.Devices.Controllers, *c)
		}
	}
	for i := range next.Devices.Inputs {
		if input := next.Devices.Inputs[i]; input.Bus == "ps2" && !have[record.Key("input", abi.Name("input", input.Alias))] {
			seen.Devices.Inputs = append(seen.Devices.Inputs, input)
		}
	}
	if seen.Devices.MemBalloon == nil {
		seen.Devices.MemBalloon = next.Devices.MemBalloon
	}
}

// forgetPlaces removes what a record says about buses and addresses.
func forgetPlaces(captured *record.Record) {
	captured.Devices, captured.FreePorts, captured.USB = nil, 0, ""
}

// forgetUSB removes what a record says about USB controllers and their ports.
func forgetUSB(captured *record.Record) {
	captured.USB = ""
	maps.DeleteFunc(captured.Devices, func(key string, at record.Address) bool {
		return at.USB != "" || strings.HasPrefix(key, record.ControllerKey("usb", 0)[:len("controller.usb.")])
	})
}

// compareAdopted compares the domain with the next boot, and records the next boot.
func compareAdopted(m Machine, vmi *v1.VirtualMachineInstance, captured record.Record, seen, again *libvirtxml.Domain) Adopted {
	adoptSpecCPU(seen, again)
	if seen.GenID != nil && again.GenID != nil {
		seen.GenID = again.GenID // the VM that takes the guest over has another one, as one that it is restored to
	}
	adoptEquivalents(seen, again)
	adopted := Adopted{Record: abi.Freeze(again, m.Defaults.Version), Changes: abi.Compare(seen, again), Before: seen, After: again}
	setCPU(&adopted.Record, freezeCPU(vmi, again.CPU, &captured, nil))
	setOmitted(&adopted.Record, &captured)
	return adopted
}

// renderWith renders the frontend of a VMI with a record, nil at the first boot.
func renderWith(m Machine, vmi *v1.VirtualMachineInstance, frozen *record.Record) (*libvirtxml.Domain, field.ErrorList) {
	m.Frozen = frozen
	return renderFrontend(m, vmi, Facts(m))
}

// nameOthers names the devices that the VMI does not have. Two devices without a name would be one in a record.
func nameOthers(dom *libvirtxml.Domain) {
	counts := map[string]int{}
	for _, device := range abi.Devices(dom) {
		if device.Alias == nil || *device.Alias != nil && strings.HasPrefix((*device.Alias).Name, abi.AliasPrefix) {
			continue
		}
		counts[device.Kind]++
		*device.Alias = abi.Alias(fmt.Sprintf("old-%s-%d", device.Kind, counts[device.Kind]))
	}
}
