package instancetype

import (
	v1 "kubevirt.io/api/core/v1"
	"kubevirt.io/api/instancetype/v1beta1"
)

// Fields of a preference: devices.preferredDiskBus, preferredLunBus, preferredCdromBus, preferredDiskCache, preferredDiskIO,
// preferredDiskBlockSize, preferredDiskDedicatedIoThread, and volumes.preferredStorageClassName, which concerns data volume
// templates: a VM has them, no guest has.

// PreferVolumes fills the storage class of data volume templates that name none. It writes into the given ones.
func PreferVolumes(set Set, templates []v1.DataVolumeTemplateSpec) {
	if set.Preference == nil || set.Preference.Spec.Volumes == nil || set.Preference.Spec.Volumes.PreferredStorageClassName == "" {
		return
	}
	class := &set.Preference.Spec.Volumes.PreferredStorageClassName
	for i := range templates {
		if claim := templates[i].Spec.PVC; claim != nil {
			fill(&claim.StorageClassName, class)
		}
		if storage := templates[i].Spec.Storage; storage != nil {
			fill(&storage.StorageClassName, class)
		}
	}
}

func preferDisks(p *Preference, vmi *v1.VirtualMachineInstance) {
	if p.Spec.Devices == nil {
		return
	}
	for i := range vmi.Spec.Domain.Devices.Disks {
		preferDisk(p.Spec.Devices, &vmi.Spec.Domain.Devices.Disks[i])
	}
}

func preferDisk(want *v1beta1.DevicePreferences, disk *v1.Disk) {
	if disk.Disk == nil && disk.CDRom == nil && disk.LUN == nil {
		disk.Disk = &v1.DiskTarget{}
	}
	switch {
	case disk.Disk != nil: // also where a CD-ROM is given beside it, which is refused
		fillText(&disk.Disk.Bus, want.PreferredDiskBus)
		fillText(&disk.Cache, want.PreferredDiskCache)
		fillText(&disk.IO, want.PreferredDiskIO)
		if disk.BlockSize == nil {
			disk.BlockSize = want.PreferredDiskBlockSize.DeepCopy()
		}
		if disk.Disk.Bus == v1.DiskBusVirtio { // no other bus has IO threads of its own
			fill(&disk.DedicatedIOThread, want.PreferredDiskDedicatedIoThread)
		}
	case disk.CDRom != nil:
		fillText(&disk.CDRom.Bus, want.PreferredCdromBus)
	default:
		fillText(&disk.LUN.Bus, want.PreferredLunBus)
	}
}
