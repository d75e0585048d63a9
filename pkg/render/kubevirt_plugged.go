package render

import (
	"slices"
	"strings"

	"github.com/kilnvm/kiln/pkg/address"
	"github.com/kilnvm/kiln/pkg/hardware"
	"github.com/kilnvm/kiln/pkg/record"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// KubeVirtPlugged returns the record of a guest that KubeVirt runs, with the disks and interfaces that were plugged in since the earlier record, and without
// those that were unplugged. The status of the VMI says which devices the domain has. libvirt puts a device that is plugged in behind the first free root port,
// and KubeVirt does the same with a new device; the unit of a disk on a controller follows from the name of its target. test/hooked compares both with a real
// libvirt.
//
// If the VMI does not tell which ports are free, certain is false and the record is nil: while a device is unplugged or the guest migrates, and after memory
// was plugged in, because KubeVirt adds a device for it that no spec names. Errors name the fields of a VMI that Kiln cannot render.
func KubeVirtPlugged(vmi *v1.VirtualMachineInstance, earlier *record.Record) (made *record.Record, certain bool, errs field.ErrorList) {
	targets, cards := domainDevices(vmi)
	if isUnplugging(vmi, targets, cards) || isMigrating(vmi) || isMemoryPlugged(vmi) {
		return nil, false, nil
	}
	live := vmi.DeepCopy()
	devices := &live.Spec.Domain.Devices
	units := map[string]string{}
	devices.Disks = slices.DeleteFunc(devices.Disks, func(d v1.Disk) bool {
		if _, was := earlier.Devices[record.Key("disk", d.Name)]; was {
			return false
		}
		target := targets[d.Name]
		if bus := hardware.Bus(busOfDisk(&d)); bus.Hotplug && bus.Address == hardware.OnController {
			units[record.Key("disk", d.Name)] = target
		}
		return target == ""
	})
	devices.Interfaces = slices.DeleteFunc(devices.Interfaces, func(i v1.Interface) bool {
		_, was := earlier.Devices[record.Key("interface", i.Name)]
		_, passed := earlier.Devices[record.Key("hostdev", i.Name)]
		return !was && !passed && !cards[i.Name]
	})
	out, errs := KubeVirt(live, earlier)
	if len(errs) > 0 {
		return nil, false, errs
	}
	for key, target := range units {
		at, is := out.Devices[key]
		if name, err := address.ParseTarget(target); is && err == nil {
			at.Drive, at.Target = address.Drive{Unit: name.Number}.String(), target
			out.Devices[key] = at
		}
	}
	if record.Check(&out) != nil {
		return nil, false, nil
	}
	return &out, true, nil
}

// domainDevices returns the targets of the disks that the domain has, and the names of its interfaces, as virt-handler reports them in the status (KubeVirt:
// updateVolumeStatusesFromDomain, and 'domain, guest-agent' of pkg/network/vmispec, v1.9). Maps, because both lists of a status may be long.
func domainDevices(vmi *v1.VirtualMachineInstance) (targets map[string]string, cards map[string]bool) {
	targets, cards = map[string]string{}, map[string]bool{}
	for i := range vmi.Status.VolumeStatus {
		if of := &vmi.Status.VolumeStatus[i]; of.Target != "" {
			targets[of.Name] = of.Target
		}
	}
	for i := range vmi.Status.Interfaces {
		of := &vmi.Status.Interfaces[i]
		if of.Name != "" && slices.Contains(strings.Split(of.InfoSource, ", "), "domain") {
			cards[of.Name] = true
		}
	}
	return targets, cards
}

func busOfDisk(d *v1.Disk) v1.DiskBus {
	switch {
	case d.Disk != nil:
		return d.Disk.Bus
	case d.LUN != nil:
		return d.LUN.Bus
	}
	return ""
}

// isUnplugging reports whether a device is being unplugged: a guest may keep it, and with it its port.
func isUnplugging(vmi *v1.VirtualMachineInstance, targets map[string]string, cards map[string]bool) bool {
	disks, interfaces := vmi.Spec.Domain.Devices.Disks, vmi.Spec.Domain.Devices.Interfaces
	staying := 0
	for i := range disks {
		if targets[disks[i].Name] != "" {
			staying++
		}
	}
	for i := range interfaces {
		if interfaces[i].State == v1.InterfaceStateAbsent {
			return true
		}
		if cards[interfaces[i].Name] {
			staying++
		}
	}
	return staying < len(targets)+len(cards)
}

func isMigrating(vmi *v1.VirtualMachineInstance) bool {
	state := vmi.Status.MigrationState
	return state != nil && !state.Completed && !state.Failed
}

// isMemoryPlugged reports whether the guest has other memory than at its boot, or is to have.
func isMemoryPlugged(vmi *v1.VirtualMachineInstance) bool {
	status, wanted := vmi.Status.Memory, vmi.Spec.Domain.Memory
	if status == nil || status.GuestAtBoot == nil {
		return false
	}
	return wanted != nil && wanted.Guest != nil && !wanted.Guest.Equal(*status.GuestAtBoot) ||
		status.GuestCurrent != nil && status.GuestCurrent.Cmp(*status.GuestAtBoot) > 0
}
