package validate

import (
	"fmt"
	"iter"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/hardware"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// Fields: domain.devices.disks: names, targets, buses. Drivers are in disks_drivers.go. The relation of disks and volumes is in disks_volumes.go.
// A disk has one target (disk, lun or cdrom), on a bus that the target supports.
// KubeVirt judges a disk in ValidateDisks, for VMs, VMIs and presets alike.

var diskRules = []guestRule{
	{disks, []Rule{
		{Name: "disks/name-twice"},
		{Name: "disks/name"},
		{Name: "disks/targets"},
		{Name: "disks/serial"},
		{Name: "disks/serial-length"},
	}},
	{diskSerials, []Rule{{Name: "disks/serial-shown", KubeVirt: KubeVirtAdmits, MendedBy: byPreference}}},
	{diskBuses, []Rule{
		{Name: "disks/bus-arm64", KubeVirt: KubeVirtRefusesVMI, MendedBy: byPreference},
		{Name: "disks/lun-bus", KubeVirt: KubeVirtRefusesSome, MendedBy: byPreference},
		{Name: "disks/reservation"},
		{Name: "disks/bus-ide", MendedBy: byPreference},
		{Name: "disks/cdrom-virtio"},
		{Name: "disks/bus", MendedBy: byPreference},
		{Name: "disks/sata-readonly"},
		{Name: "disks/pci-bus", KubeVirt: KubeVirtRefusesVMI, MendedBy: byCompletion | byPreference},
		{Name: "disks/pci-address"},
	}},
}

// serialLimit is KubeVirt's limit in characters. The guest sees fewer: hardware.DiskBus.ShownSerial.
const serialLimit = 256

var (
	serialPattern = regexp.MustCompile(`^[A-Za-z0-9_.+-]+$`)
	// pciPattern is domain, bus, slot and function. KubeVirt accepts slots up to ff; PCI has 00 to 1f.
	pciPattern = regexp.MustCompile(`^[0-9a-fA-F]{4}:[0-9a-fA-F]{2}:[01][0-9a-fA-F]\.[0-7]$`)
)

func disks(spec *v1.VirtualMachineInstanceSpec, _ config.Limits, path *field.Path) field.ErrorList {
	return diskForms(spec.Domain.Devices.Disks, disksOf(path))
}

// disksOf are the places of the disks of a spec.
func disksOf(spec *field.Path) places {
	return func(i int, names ...string) *field.Path {
		return below(spec.Child("domain", "devices", "disks"), i, names...)
	}
}

// diskForms is validateDiskName, validateDiskNameAsContainerName, validateDeviceTarget, validateSerialNumValue and
// validateSerialNumLength of KubeVirt. A name is a DNS label because KubeVirt names a container after it, and because the volume of
// the pod has the same name.
func diskForms(list []v1.Disk, places places) (errs field.ErrorList) {
	first := map[string]int{}
	for i := range list {
		disk := &list[i]
		at := func(name string) *field.Path { return places(i, name) }
		if _, found := first[disk.Name]; found {
			errs = append(errs, field.Duplicate(at("name"), disk.Name).WithOrigin("disks/name-twice"))
		} else if first[disk.Name] = i; len(validation.IsDNS1123Label(disk.Name)) > 0 {
			errs = append(errs, named(at("name"), disk.Name, validation.IsDNS1123Label).WithOrigin("disks/name")...)
		}
		if target, second := firstTargets(disk); second != "" {
			errs = append(errs, field.Forbidden(at(second), "cannot be combined with "+target+": a disk has one target").WithOrigin("disks/targets"))
		}
		if disk.Serial != "" && !serialPattern.MatchString(disk.Serial) {
			errs = append(errs, field.Invalid(at("serial"), disk.Serial, "must consist of letters, digits and '_.+-'").WithOrigin("disks/serial"))
		}
		if utf8.RuneCountInString(disk.Serial) > serialLimit {
			errs = append(errs, field.TooLong(at("serial"), "", serialLimit).WithOrigin("disks/serial-length"))
		}
	}
	return errs
}

// shownSerial returns the serial number that the guest sees; empty if the disk sets no serial number. A LUN shows the serial number of the device behind it.
func shownSerial(disk *v1.Disk) string {
	on, target := bus(disk)
	if b := hardware.Bus(on); b.Known() && target != hardware.LUN && len(disk.Serial) > b.ShownSerial {
		return disk.Serial[:b.ShownSerial]
	}
	return disk.Serial
}

// diskSerials has no counterpart in KubeVirt. Two disks whose serial numbers differ only beyond what their bus shows have one name in /dev/disk/by-id of the
// guest. Two that are equal as they are written are meant so: a guest finds the paths of a multipath device by them.
func diskSerials(spec *v1.VirtualMachineInstanceSpec, _ config.Limits, path *field.Path) (errs field.ErrorList) {
	type seen struct {
		bus   v1.DiskBus
		shown string
	}
	first := map[seen]string{}
	for i := range spec.Domain.Devices.Disks {
		disk := &spec.Domain.Devices.Disks[i]
		if disk.Serial == "" || disk.LUN != nil {
			continue
		}
		on, _ := bus(disk)
		key := seen{on, shownSerial(disk)}
		other, found := first[key]
		switch {
		case !found:
			first[key] = disk.Serial
		case other != disk.Serial:
			errs = append(errs, field.Invalid(disksOf(path)(i, "serial"), disk.Serial, fmt.Sprintf(
				"bus '%s' shows the first %d bytes, with which '%s' begins too: the guest could not tell the disks apart", on, hardware.Bus(on).ShownSerial, other)).
				WithOrigin("disks/serial-shown"))
		}
	}
	return errs
}

// firstTargets returns the field names of the first two targets that are set.
func firstTargets(disk *v1.Disk) (first, second string) {
	return firstTwo(kind{"disk", disk.Disk != nil}, kind{"lun", disk.LUN != nil}, kind{"cdrom", disk.CDRom != nil})
}

// kind is one of several alternative fields: its name, and whether it is set.
type kind struct {
	name string
	set  bool
}

// firstTwo returns the names of the first two that are set, or empty strings.
func firstTwo(kinds ...kind) (first, second string) {
	for _, k := range kinds {
		switch {
		case !k.set:
		case first == "":
			first = k.name
		default:
			return first, k.name
		}
	}
	return first, ""
}

// eachBus yields each target that is set, with its bus. There is one, unless rule disks/targets refuses the disk.
// Rules about buses judge each of them, so that a disk with two targets has its other mistakes reported at once.
func eachBus(disk *v1.Disk) iter.Seq2[string, v1.DiskBus] {
	return func(yield func(string, v1.DiskBus) bool) {
		if disk.Disk != nil && !yield("disk", disk.Disk.Bus) {
			return
		}
		if disk.LUN != nil && !yield("lun", disk.LUN.Bus) {
			return
		}
		if disk.CDRom != nil {
			yield("cdrom", disk.CDRom.Bus)
		}
	}
}

// bus returns the bus of a disk and the name of its target; both are empty without a target.
func bus(disk *v1.Disk) (v1.DiskBus, string) {
	switch {
	case disk.Disk != nil:
		return disk.Disk.Bus, "disk"
	case disk.LUN != nil:
		return disk.LUN.Bus, "lun"
	case disk.CDRom != nil:
		return disk.CDRom.Bus, "cdrom"
	}
	return "", ""
}

// diskBuses adds the rules that depend on the architecture or the cluster: validateDiskBus of KubeVirt's arm64 rules and
// validatePersistentReservation.
func diskBuses(spec *v1.VirtualMachineInstanceSpec, limits config.Limits, path *field.Path) (errs field.ErrorList) {
	at := disksOf(path)
	errs = diskBusesOn(spec.Architecture, spec.Domain.Devices.Disks, at)
	for i := range spec.Domain.Devices.Disks {
		disk := &spec.Domain.Devices.Disks[i]
		for target, bus := range eachBus(disk) {
			if spec.Architecture == arm64 && lacksBus(arm64, target, bus) {
				errs = append(errs, field.NotSupported(at(i, target, "bus"), bus, hardware.BusesFor(arm64, target)).WithOrigin("disks/bus-arm64"))
			}
		}
		if disk.LUN != nil && disk.LUN.Reservation && !limits.PersistentReservation {
			errs = append(errs, field.Forbidden(at(i, "lun", "reservation"),
				"persistent reservations are not enabled in this cluster").WithOrigin("disks/reservation"))
		}
	}
	return errs
}

// lacksBus reports whether guests of an architecture do not have a bus that others have. LUNs have their own rule, which offers the same buses on each
// architecture.
func lacksBus(architecture, target string, bus v1.DiskBus) bool {
	b := hardware.Bus(bus)
	return target != hardware.LUN && b.Known() && !b.On(architecture)
}

// diskBusForms is diskBusesOn for any architecture.
func diskBusForms(list []v1.Disk, at places) field.ErrorList { return diskBusesOn("", list, at) }

// diskBusesOn is validateBusSupport and validatePciAddress. KubeVirt accepts LUNs on each bus. IDE is refused because q35 has no IDE controller.
func diskBusesOn(architecture string, list []v1.Disk, at places) (errs field.ErrorList) {
	for i := range list {
		disk := &list[i]
		for target, bus := range eachBus(disk) {
			b := hardware.Bus(bus)
			if bus == "" || b.Has(target) {
				continue
			}
			err := field.NotSupported(at(i, target, "bus"), bus, hardware.BusesFor(architecture, target))
			switch {
			case target == hardware.LUN:
				err = err.WithOrigin("disks/lun-bus")
			case bus == "ide":
				err = err.WithOrigin("disks/bus-ide")
			case b.Known():
				err = err.WithOrigin("disks/cdrom-virtio")
			default:
				err = err.WithOrigin("disks/bus")
			}
			errs = append(errs, err)
		}
		if disk.Disk == nil {
			continue
		}
		if b := hardware.Bus(disk.Disk.Bus); disk.Disk.ReadOnly && b.On(architecture) && !b.ReadOnlyDisks {
			errs = append(errs, field.Invalid(at(i, "disk", "bus"), disk.Disk.Bus,
				"does not support read-only disks: use 'virtio' or 'scsi', or remove readonly").WithOrigin("disks/sata-readonly"))
		}
		if disk.Disk.PciAddress != "" {
			errs = append(errs, diskAddress(disk.Disk, at(i, "disk", "pciAddress"))...)
		}
	}
	return errs
}

// diskAddress judges the form only; rule devices/pci-address judges whether the machine has the address.
func diskAddress(disk *v1.DiskTarget, at *field.Path) field.ErrorList {
	switch {
	case hardware.Bus(disk.Bus).Address != hardware.OnPCI:
		return field.ErrorList{field.Invalid(at, disk.PciAddress, "needs bus 'virtio': disks on other buses are not PCI devices").WithOrigin("disks/pci-bus")}
	case !pciPattern.MatchString(disk.PciAddress):
		return field.ErrorList{field.Invalid(at, disk.PciAddress, "must be a PCI address such as '0000:81:01.0'").WithOrigin("disks/pci-address")}
	}
	return nil
}

// isClaim reports whether a volume is a persistent volume of the cluster: LUNs require one, and file systems on one need a feature gate.
func isClaim(volume *v1.Volume) bool {
	return volume.PersistentVolumeClaim != nil || volume.DataVolume != nil
}

// isUnder reports whether a path is the directory or below it.
// It compares whole path elements: /var/run/kubevirtx is not below /var/run/kubevirt.
func isUnder(path, directory string) bool {
	return path == directory || strings.HasPrefix(path, directory+"/")
}
