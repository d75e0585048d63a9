package render

import (
	"slices"
	"strings"

	"github.com/kilnvm/kiln/pkg/address"
	"github.com/kilnvm/kiln/pkg/record"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// KubeVirtPlugged returns the record of a guest that KubeVirt runs, with the disks and interfaces that were plugged in since the earlier record, and without
// those that were unplugged. The status of the VMI says which are in the domain. libvirt puts a device that is plugged in behind the first free root port, as
// KubeVirt does with a new device; the unit of a SCSI disk follows from the name of its target. test/hooked compares both with a real libvirt.
//
// certain is false, and the record is nil, where the VMI does not tell which ports are free: while a device is leaving or the guest migrates, and after memory
// was plugged in, since KubeVirt adds a device for it that no spec names. Errors name the fields of a VMI that Kiln cannot render.
func KubeVirtPlugged(vmi *v1.VirtualMachineInstance, earlier *record.Record) (made *record.Record, certain bool, errs field.ErrorList) {
	if leaving(vmi) || migrating(vmi) || memoryPlugged(vmi) {
		return nil, false, nil
	}
	live := vmi.DeepCopy()
	devices := &live.Spec.Domain.Devices
	units := map[string]string{}
	devices.Disks = slices.DeleteFunc(devices.Disks, func(d v1.Disk) bool {
		if _, was := earlier.Devices[record.Key("disk", d.Name)]; was {
			return false
		}
		target := targetOf(vmi, d.Name)
		if bus := busOf(&d); bus == v1.DiskBusSCSI {
			units[record.Key("disk", d.Name)] = target
		}
		return target == ""
	})
	devices.Interfaces = slices.DeleteFunc(devices.Interfaces, func(i v1.Interface) bool {
		_, was := earlier.Devices[record.Key("interface", i.Name)]
		_, passed := earlier.Devices[record.Key("hostdev", i.Name)]
		return !was && !passed && !inDomain(vmi, i.Name)
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

// targetOf is the target of a disk in the domain, empty where the domain has no such disk: virt-handler reports it (updateVolumeStatusesFromDomain, v1.9).
func targetOf(vmi *v1.VirtualMachineInstance, name string) string {
	for i := range vmi.Status.VolumeStatus {
		if of := &vmi.Status.VolumeStatus[i]; of.Name == name {
			return of.Target
		}
	}
	return ""
}

func busOf(d *v1.Disk) v1.DiskBus {
	switch {
	case d.Disk != nil:
		return d.Disk.Bus
	case d.LUN != nil:
		return d.LUN.Bus
	}
	return ""
}

// inDomain reports whether the domain has an interface. The status lists who knows it: 'domain, guest-agent' (KubeVirt: pkg/network/vmispec).
func inDomain(vmi *v1.VirtualMachineInstance, name string) bool {
	return slices.ContainsFunc(vmi.Status.Interfaces, func(i v1.VirtualMachineInstanceNetworkInterface) bool {
		return i.Name == name && slices.Contains(strings.Split(i.InfoSource, ", "), "domain")
	})
}

// leaving reports whether a device is being unplugged: a guest may keep it, and with it its port.
func leaving(vmi *v1.VirtualMachineInstance) bool {
	devices := &vmi.Spec.Domain.Devices
	for i := range vmi.Status.VolumeStatus {
		of := &vmi.Status.VolumeStatus[i]
		if of.Target != "" && !slices.ContainsFunc(devices.Disks, func(d v1.Disk) bool { return d.Name == of.Name }) {
			return true
		}
	}
	for i := range vmi.Status.Interfaces {
		name := vmi.Status.Interfaces[i].Name
		wanted := slices.ContainsFunc(devices.Interfaces, func(n v1.Interface) bool { return n.Name == name })
		if name != "" && !wanted && inDomain(vmi, name) {
			return true
		}
	}
	return slices.ContainsFunc(devices.Interfaces, func(n v1.Interface) bool { return n.State == v1.InterfaceStateAbsent })
}

func migrating(vmi *v1.VirtualMachineInstance) bool {
	state := vmi.Status.MigrationState
	return state != nil && !state.Completed && !state.Failed
}

// memoryPlugged reports whether the guest has other memory than at its boot, or is to have.
func memoryPlugged(vmi *v1.VirtualMachineInstance) bool {
	status, wanted := vmi.Status.Memory, vmi.Spec.Domain.Memory
	if status == nil || status.GuestAtBoot == nil {
		return false
	}
	return wanted != nil && wanted.Guest != nil && !wanted.Guest.Equal(*status.GuestAtBoot) ||
		status.GuestCurrent != nil && status.GuestCurrent.Cmp(*status.GuestAtBoot) > 0
}
