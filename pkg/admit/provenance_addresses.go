package admit

import (
	"slices"

	"github.com/kilnvm/kiln/pkg/record"
	v1 "kubevirt.io/api/core/v1"
)

// noteHardware notes the recorded CPU and PCI addresses that admission gave a VMI that KubeVirt runs. explicit is the VMI that stage 1 makes of the VM, without
// them.
func (h history) noteHardware(vmi, explicit *v1.VirtualMachineInstance, frozen *record.Record, in Input) {
	if frozen == nil || !in.Cluster.Limits.KubeVirtGuests {
		return
	}
	made, given := explicit.DeepCopy(), pciAddresses(vmi)
	for key, at := range pciAddresses(made) {
		if is := given[key]; is != nil && *is == frozen.Devices[key].PCI {
			*at = *is
		}
	}
	copyPinnedCPU(made.Spec.Domain.CPU, vmi.Spec.Domain.CPU, frozen.CPU)
	h.noteChanges(made, recordOrigin(vmi))
}

// copyPinnedCPU copies the model and the features that admission has added because of a record: the features are behind the owner's.
func copyPinnedCPU(to, from *v1.CPU, recorded *record.CPU) {
	if to == nil || from == nil || recorded == nil || to.Model != recorded.Requested {
		return
	}
	if from.Model == recorded.Model {
		to.Model = from.Model
	}
	for _, f := range from.Features[min(len(to.Features), len(from.Features)):] {
		if _, recorded := slices.BinarySearch(recorded.Features, f.Name); !recorded {
			return
		}
		to.Features = append(to.Features, f)
	}
}

// pciAddresses returns the fields pciAddress of a VMI, by the key of the device in records.
func pciAddresses(vmi *v1.VirtualMachineInstance) map[string]*string {
	fields, devices := map[string]*string{}, &vmi.Spec.Domain.Devices
	for i := range devices.Disks {
		if disk := &devices.Disks[i]; disk.Disk != nil {
			fields[record.Key("disk", disk.Name)] = &disk.Disk.PciAddress
		}
	}
	for i := range devices.Interfaces {
		fields[record.Key("interface", devices.Interfaces[i].Name)] = &devices.Interfaces[i].PciAddress
	}
	return fields
}
