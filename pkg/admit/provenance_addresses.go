package admit

import (
	"github.com/kilnvm/kiln/pkg/record"
	v1 "kubevirt.io/api/core/v1"
)

// noteAddresses notes the recorded PCI addresses that admission gave a VMI that KubeVirt runs. explicit is the VMI that stage 1 makes of the VM, without these
// addresses.
func (h history) noteAddresses(vmi, explicit *v1.VirtualMachineInstance, frozen *record.Record, in Input) {
	if frozen == nil || !in.Cluster.Limits.KubeVirtGuests {
		return
	}
	made, given := explicit.DeepCopy(), pciAddresses(vmi)
	for key, at := range pciAddresses(made) {
		if is := given[key]; is != nil && *is == frozen.Devices[key].PCI {
			*at = *is
		}
	}
	h.noteChanges(made, recordOrigin(vmi))
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
