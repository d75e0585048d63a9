package validate

import (
	"fmt"

	"github.com/kilnvm/kiln/pkg/config"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	v1 "kubevirt.io/api/core/v1"
)

// Fields: the names that connect domain.devices.disks and domain.devices.filesystems with volumes, and bootOrder.
// Each disk has a volume (a CD-ROM may be empty), each volume has a disk or a file system, and no two devices have the same boot order.
// KubeVirt matches disks with volumes in validateBootOrder, and volumes with disks in validateVirtualMachineInstanceSpecVolumeDisks;
// the latter only for VMIs. Here both apply to VMs too, which are judged as they will boot.

var diskVolumeRules = []guestRule{
	{diskVolumes, []Rule{
		{Name: "disks/cdrom-volume", KubeVirt: KubeVirtAdmits},
		{Name: "disks/disk-volume"},
		{Name: "disks/memory-dump", KubeVirt: KubeVirtAdmits},
		{Name: "disks/lun-volume"},
		{Name: "disks/metrics-disk", MendedBy: byCompletion | byPreference},
		{Name: "disks/metrics-bus", KubeVirt: KubeVirtRefusesVMI, MendedBy: byPreference},
	}},
	{sharedDisks, []Rule{
		{Name: "disks/shared-volume", KubeVirt: KubeVirtAdmits},
	}},
	{bootOrder, []Rule{
		{Name: "disks/boot-order"},
		{Name: "disks/boot-order-twice"},
	}},
}

var volumeUseRules = []guestRule{
	{volumeUse, []Rule{
		{Name: "disks/directory-as-disk", KubeVirt: KubeVirtRefusesVMI},
		{Name: "disks/directory-unused", KubeVirt: KubeVirtRefusesVMI},
		{Name: "disks/volume-unused", KubeVirt: KubeVirtRefusesVMI, MendedBy: byCompletion},
	}},
}

var filesystemRules = []guestRule{
	{filesystems, []Rule{
		{Name: "disks/filesystem-kind"},
		{Name: "disks/filesystem-gate"},
		{Name: "disks/filesystem-config-gate", Until: 7},
	}},
}

// volumeIndex finds volumes by name. Of two with one name, which rule disks/volume-name-twice refuses, the later counts.
func volumeIndex(spec *v1.VirtualMachineInstanceSpec) map[string]*v1.Volume {
	index := make(map[string]*v1.Volume, len(spec.Volumes))
	for i := range spec.Volumes {
		index[spec.Volumes[i].Name] = &spec.Volumes[i]
	}
	return index
}

// diskVolumes requires the volume of each disk. KubeVirt accepts a disk of a memory dump and renders none; an empty CD-ROM waits for a
// volume to be hotplugged, which is what the gate is about.
func diskVolumes(spec *v1.VirtualMachineInstanceSpec, limits config.Limits, path *field.Path) (errs field.ErrorList) {
	index := volumeIndex(spec)
	for i := range spec.Domain.Devices.Disks {
		disk := &spec.Domain.Devices.Disks[i]
		at := func(names ...string) *field.Path {
			return below(path.Child("domain", "devices", "disks"), i, names...)
		}
		volume := index[disk.Name]
		switch {
		case volume == nil && disk.CDRom != nil:
			if !limits.Gates.Enabled("DeclarativeHotplugVolumes") {
				errs = append(errs, field.Invalid(at("name"), disk.Name,
					"no volume has this name: add it to volumes; a CD-ROM without a volume needs feature gate 'DeclarativeHotplugVolumes'").WithOrigin("disks/cdrom-volume"))
			}
		case volume == nil:
			errs = append(errs, field.Invalid(at("name"), disk.Name, "no volume has this name: add it to volumes, or remove the disk").WithOrigin("disks/disk-volume"))
		case volume.MemoryDump != nil:
			errs = append(errs, field.Invalid(at("name"), disk.Name, "a volume of type memoryDump cannot be a disk: remove the disk").WithOrigin("disks/memory-dump"))
		case disk.LUN != nil && !isClaim(volume):
			errs = append(errs, field.Invalid(at("lun"), disk.Name, "needs a volume of type persistentVolumeClaim or dataVolume").WithOrigin("disks/lun-volume"))
		}
		if volume != nil && volume.DownwardMetrics != nil {
			errs = append(errs, metricsDisk(disk, at())...)
		}
	}
	return errs
}

// sharedDisks refuses to share volumes that are created for one VMI. QEMU refuses to share its own image formats.
// KubeVirt accepts shareable on any volume, and the VMI never starts.
func sharedDisks(spec *v1.VirtualMachineInstanceSpec, _ config.Limits, path *field.Path) (errs field.ErrorList) {
	index := volumeIndex(spec)
	for i := range spec.Domain.Devices.Disks {
		disk := &spec.Domain.Devices.Disks[i]
		volume := index[disk.Name]
		if ptr.Deref(disk.Shareable, false) && volume != nil && (volume.ContainerDisk != nil || volume.Ephemeral != nil || volume.EmptyDisk != nil) {
			errs = append(errs, field.Invalid(path.Child("domain", "devices", "disks").Index(i).Child("shareable"), true,
				"volume '"+disk.Name+"' is private to this VMI and cannot be shared: use a persistentVolumeClaim, dataVolume or hostDisk").
				WithOrigin("disks/shared-volume"))
		}
	}
	return errs
}

// metricsDisk requires a virtio disk, which is where vhostmd's readers look for the host's metrics.
func metricsDisk(disk *v1.Disk, at *field.Path) field.ErrorList {
	if disk.Disk == nil {
		return field.ErrorList{field.Required(at.Child("disk"), "a volume of type downwardMetrics must be a disk").WithOrigin("disks/metrics-disk")}
	}
	if disk.Disk.Bus != "" && disk.Disk.Bus != v1.DiskBusVirtio {
		return field.ErrorList{field.NotSupported(at.Child("disk", "bus"), disk.Disk.Bus, []v1.DiskBus{v1.DiskBusVirtio}).WithOrigin("disks/metrics-bus")}
	}
	return nil
}

// bootOrder is validateBootOrderValue, validateBootOrder and validateInterfaceBootOrder: libvirt has one order for all devices, disks
// and interfaces.
func bootOrder(spec *v1.VirtualMachineInstanceSpec, _ config.Limits, path *field.Path) (errs field.ErrorList) {
	// taken has the path of the first device with a number, which the error names.
	taken := map[uint]string{}
	check := func(order *uint, at *field.Path) {
		switch {
		case *order < 1:
			errs = append(errs, field.Invalid(at, *order, "must be at least 1").WithOrigin("disks/boot-order"))
		case taken[*order] != "":
			errs = append(errs, field.Invalid(at, *order,
				fmt.Sprintf("is already used by %s: give each device a different number", taken[*order])).WithOrigin("disks/boot-order-twice"))
		default:
			taken[*order] = at.String()
		}
	}
	path = path.Child("domain", "devices")
	for i := range spec.Domain.Devices.Disks {
		if order := spec.Domain.Devices.Disks[i].BootOrder; order != nil {
			check(order, below(path.Child("disks"), i, "bootOrder"))
		}
	}
	for i := range spec.Domain.Devices.Interfaces {
		if order := spec.Domain.Devices.Interfaces[i].BootOrder; order != nil {
			check(order, below(path.Child("interfaces"), i, "bootOrder"))
		}
	}
	return errs
}

// volumeUse refuses volumes that no disk or file system uses. A memory dump is exempt: the host writes it. mutate adds a disk for a volume
// without one, so disks/volume-unused refuses only VMIs that were not made explicit.
func volumeUse(spec *v1.VirtualMachineInstanceSpec, _ config.Limits, path *field.Path) (errs field.ErrorList) {
	asDisk, asFiles := make(map[string]bool, len(spec.Domain.Devices.Disks)), map[string]bool{}
	for i := range spec.Domain.Devices.Disks {
		asDisk[spec.Domain.Devices.Disks[i].Name] = true
	}
	for _, fs := range spec.Domain.Devices.Filesystems {
		asFiles[fs.Name] = true
	}
	for i := range spec.Volumes {
		volume := &spec.Volumes[i]
		at := func() *field.Path { return below(path.Child("volumes"), i, "name") }
		switch {
		case volume.MemoryDump != nil:
		case volume.ContainerPath != nil:
			if asDisk[volume.Name] {
				errs = append(errs, field.Invalid(at(), volume.Name,
					"is a directory: map it to a file system in domain.devices.filesystems, not to a disk").WithOrigin("disks/directory-as-disk"))
			} else if !asFiles[volume.Name] {
				errs = append(errs, field.Invalid(at(), volume.Name,
					"is a directory: it needs a file system of this name in domain.devices.filesystems").WithOrigin("disks/directory-unused"))
			}
		case !asDisk[volume.Name] && !asFiles[volume.Name]:
			errs = append(errs, field.Invalid(at(), volume.Name,
				"no disk or file system has this name: add one to domain.devices, or remove the volume").WithOrigin("disks/volume-unused"))
		}
	}
	return errs
}

// filesystems require a feature gate where a file server on the host serves storage of the cluster.
// In KubeVirt it is validateFilesystemsWithVirtIOFSEnabled. File systems of ConfigMaps, Secrets and other volumes of the pod need one
// until v1.7.
func filesystems(spec *v1.VirtualMachineInstanceSpec, limits config.Limits, path *field.Path) (errs field.ErrorList) {
	if len(spec.Domain.Devices.Filesystems) == 0 {
		return nil // as for most VMIs: they need no index of their volumes
	}
	index := volumeIndex(spec)
	for i, fs := range spec.Domain.Devices.Filesystems {
		if fs.Virtiofs == nil {
			errs = append(errs, field.Required(path.Child("domain", "devices", "filesystems").Index(i).Child("virtiofs"),
				"set virtiofs: it is the only kind of file system").WithOrigin("disks/filesystem-kind"))
		}
		switch volume := index[fs.Name]; {
		case volume == nil:
		case isClaim(volume):
			errs = append(errs, gated(limits, "EnableVirtioFsStorageVolumes",
				path.Child("domain", "devices", "filesystems").Index(i)).WithOrigin("disks/filesystem-gate")...)
		case volume.ConfigMap != nil, volume.Secret != nil, volume.ServiceAccount != nil, volume.DownwardAPI != nil:
			errs = append(errs, gated(limits, "EnableVirtioFsConfigVolumes",
				path.Child("domain", "devices", "filesystems").Index(i)).WithOrigin("disks/filesystem-config-gate")...)
		}
	}
	return errs
}
