package instancetype

import (
	"github.com/kilnvm/kiln/pkg/internal/filled"
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
			fill(nil, &claim.StorageClassName, class)
		}
		if storage := templates[i].Spec.Storage; storage != nil {
			fill(nil, &storage.StorageClassName, class)
		}
	}
}

func preferDisks(p *Preference, vmi *v1.VirtualMachineInstance, log *filled.Log) {
	if p.Spec.Devices == nil {
		return
	}
	for i := range vmi.Spec.Domain.Devices.Disks {
		preferDisk(p.Spec.Devices, &vmi.Spec.Domain.Devices.Disks[i], log)
	}
}

func preferDisk(want *v1beta1.DevicePreferences, disk *v1.Disk, log *filled.Log) {
	if disk.Disk == nil && disk.CDRom == nil && disk.LUN == nil {
		disk.Disk = &v1.DiskTarget{}
	}
	switch {
	case disk.Disk != nil: // also where a CD-ROM is given beside it, which is refused
		fillText(log, &disk.Disk.Bus, want.PreferredDiskBus)
		fillText(log, &disk.Cache, want.PreferredDiskCache)
		fillText(log, &disk.IO, want.PreferredDiskIO)
		fillCopy(log, &disk.BlockSize, want.PreferredDiskBlockSize)
		if disk.Disk.Bus == v1.DiskBusVirtio { // no other bus has IO threads of its own
			fill(log, &disk.DedicatedIOThread, want.PreferredDiskDedicatedIoThread)
		}
	case disk.CDRom != nil:
		fillText(log, &disk.CDRom.Bus, want.PreferredCdromBus)
	default:
		fillText(log, &disk.LUN.Bus, want.PreferredLunBus)
	}
}
