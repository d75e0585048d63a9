package instancetype

import (
	"github.com/kilnvm/kiln/pkg/hardware"
	"github.com/kilnvm/kiln/pkg/internal/filled"
	v1 "kubevirt.io/api/core/v1"
	"kubevirt.io/api/instancetype/v1beta1"
)

// Fields of a preference: devices.preferredDiskBus, preferredLunBus, preferredCdromBus, preferredDiskCache, preferredDiskIO,
// preferredDiskBlockSize, preferredDiskDedicatedIoThread, and volumes.preferredStorageClassName, which is for spec.dataVolumeTemplates of
// a VM.

// PreferVolumes fills storageClassName in pvc and storage of templates that do not set it. It changes the given templates. It is called with
// referencePolicy 'expand', and when DataVolumes are made: the spec of other VMs stays as it was written.
func PreferVolumes(set Set, templates []v1.DataVolumeTemplateSpec) {
	if set.Preference == nil || set.Preference.Spec.Volumes == nil || set.Preference.Spec.Volumes.PreferredStorageClassName == "" {
		return
	}
	class := &set.Preference.Spec.Volumes.PreferredStorageClassName
	for i := range templates {
		if claim := templates[i].Spec.PVC; claim != nil {
			fillPointer(nil, &claim.StorageClassName, class)
		}
		if storage := templates[i].Spec.Storage; storage != nil {
			fillPointer(nil, &storage.StorageClassName, class)
		}
	}
}

// preferDisks is applyDiskPreferences.
func preferDisks(p *Preference, vmi *v1.VirtualMachineInstance, log *filled.Log) {
	if p.Spec.Devices == nil {
		return
	}
	for i := range vmi.Spec.Domain.Devices.Disks {
		preferDisk(p.Spec.Devices, &vmi.Spec.Domain.Devices.Disks[i], log)
	}
}

// preferDisk gives a disk without a target the target 'disk', because a preferred bus needs a target. Package mutate would do the same later.
func preferDisk(want *v1beta1.DevicePreferences, disk *v1.Disk, log *filled.Log) {
	if disk.Disk == nil && disk.CDRom == nil && disk.LUN == nil {
		disk.Disk = &v1.DiskTarget{}
	}
	switch {
	case disk.Disk != nil: // validate refuses a second target beside it
		fillText(log, &disk.Disk.Bus, want.PreferredDiskBus)
		fillText(log, &disk.Cache, want.PreferredDiskCache)
		fillText(log, &disk.IO, want.PreferredDiskIO)
		fillCopy(log, &disk.BlockSize, want.PreferredDiskBlockSize)
		if hardware.Bus(disk.Disk.Bus).IOThreads { // validate refuses dedicatedIOThread on any other bus
			fillPointer(log, &disk.DedicatedIOThread, want.PreferredDiskDedicatedIoThread)
		}
	case disk.CDRom != nil:
		fillText(log, &disk.CDRom.Bus, want.PreferredCdromBus)
	default:
		fillText(log, &disk.LUN.Bus, want.PreferredLunBus)
	}
}
