package kubevirt

import (
	"cmp"

	"github.com/kilnvm/kiln/pkg/address"
	"github.com/kilnvm/kiln/pkg/hardware"
)

// Places of disks on controllers of disks.
// KubeVirt numbers SATA and SCSI disks together, and makes the number the unit of a SCSI disk and its target name. libvirt derives the unit of a SATA disk
// from the name, and refuses two disks at one place.

// placeDrives restores the recorded places of disks on their controllers. A new disk keeps its place, or takes the lowest free one.
func (g *guest) placeDrives() {
	placed, names := false, map[*device]string{}
	for _, bus := range hardware.DiskBuses {
		if bus.Controller != nil && g.placeUnits(bus, names) {
			placed = true
		}
	}
	if placed {
		g.renameTargets(names)
	}
}

// placeUnits places the disks of one bus, and reports whether the record has one of them. On a bus that takes disks while the guest runs, it also collects the
// names that the units of its disks ask for.
func (g *guest) placeUnits(bus *hardware.DiskBus, names map[*device]string) bool {
	size := bus.Controller.Units
	var disks, added []*device
	var numbers, wanted []uint
	for _, d := range g.devices {
		if d.Tag != "disk" || d.busName() != string(bus.Name) {
			continue
		}
		if at, err := address.ParseDrive(d.recorded.Drive); err == nil {
			if n, ok := at.Number(size); ok {
				disks, numbers = append(disks, d), append(numbers, n)
				continue
			}
		}
		added, wanted = append(added, d), append(wanted, unitOf(d, size))
	}
	if len(disks) == 0 {
		return false
	}
	places := address.Numbers(append(numbers, wanted...), 0)
	for i, d := range append(disks, added...) {
		if i < len(numbers) && places[i] != numbers[i] {
			g.addError(d.String(), "its recorded place %s is taken by another disk", d.recorded.Drive)
		}
		at := address.DriveAt(places[i], size)
		setAddress(d.Element, "drive", attr{"controller", formatDecimal(at.Controller)}, attr{"bus", "0"}, attr{"target", "0"}, attr{"unit", formatDecimal(at.Unit)})
		if at.Controller == 0 && bus.Hotplug {
			names[d] = address.Target{Prefix: bus.Prefix, Number: at.Unit}.String()
		}
	}
	return true
}

// unitOf returns the unit that KubeVirt gives to a disk that the record does not have.
func unitOf(d *device, size uint) uint {
	if at := d.SelectElement("address"); at != nil && at.SelectAttrValue("type", "") == "drive" {
		controller, first := parseNumber(at, "controller")
		unit, second := parseNumber(at, "unit")
		if n, ok := (address.Drive{Controller: controller, Unit: unit}).Number(size); first && second && ok {
			return n
		}
		return address.Unrecorded
	}
	if target, err := address.ParseTarget(d.targetName()); err == nil {
		return target.Number
	}
	return address.Unrecorded
}

func (d *device) targetName() string {
	if target := d.SelectElement("target"); target != nil {
		return target.SelectAttrValue("dev", "")
	}
	return ""
}

// renameTargets gives disks the wanted names of their units: KubeVirt takes the unit of a disk that is plugged in later from the lowest free name. Other disks
// whose name is then taken get a free one. The guest does not see these names.
func (g *guest) renameTargets(wanted map[*device]string) {
	taken := map[string]bool{}
	for _, name := range wanted {
		taken[name] = true
	}
	var without []*device
	for _, d := range g.devices {
		switch name := d.targetName(); {
		case d.Tag != "disk" || name == "":
		case wanted[d] != "":
			d.SelectElement("target").CreateAttr("dev", wanted[d])
		case taken[name]:
			without = append(without, d)
		default:
			taken[name] = true
		}
	}
	next := uint(0)
	for _, d := range without {
		name := ""
		for name == "" || taken[name] {
			name = address.Target{Prefix: cmp.Or(hardware.Bus(d.busName()).Prefix, "sd"), Number: next}.String()
			next++
		}
		taken[name] = true
		d.SelectElement("target").CreateAttr("dev", name)
	}
}
