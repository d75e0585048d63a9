package validate

import (
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/hardware"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// Fields: status.volumeRequests of a VM.
// A request adds one volume or removes one. An added volume can be hotplugged (a disk on virtio or scsi, or a LUN on scsi), and no other
// request adds it too.
// KubeVirt judges requests in validateVolumeRequests and ValidateHotplugDiskConfiguration, and applies them to the template and to the
// running VMI. Kiln does not hotplug volumes, so it judges the request alone.

var volumeRequestRules = []vmRule{
	{volumeRequests, []Rule{
		{Name: "disks/request-both"},
		{Name: "disks/request-empty"},
		{Name: "disks/request-twice"},
		{Name: "disks/request-conflict"},
		{Name: "disks/request-disk"},
		{Name: "disks/request-bus"},
		{Name: "disks/request-lun-bus"},
		{Name: "disks/request-target"},
		{Name: "disks/request-boot-order"},
	}},
}

// volumeRequests judges each request, and whether two add or remove one volume. Adding and removing one volume in two requests is
// allowed, as in KubeVirt.
func volumeRequests(vm, _ *v1.VirtualMachine, _ config.Limits) (errs field.ErrorList) {
	// One name may be added and removed, but neither twice.
	added, removed := map[string]bool{}, map[string]bool{}
	for i := range vm.Status.VolumeRequests {
		request, at := &vm.Status.VolumeRequests[i], field.NewPath("status", "volumeRequests").Index(i)
		switch add, remove := request.AddVolumeOptions, request.RemoveVolumeOptions; {
		case add != nil && remove != nil:
			errs = append(errs, field.Forbidden(at.Child("removeVolumeOptions"),
				"cannot be combined with addVolumeOptions: make it a separate request").WithOrigin("disks/request-both"))
		case add != nil:
			at = at.Child("addVolumeOptions")
			errs = append(errs, requestName(add.Name, added, at.Child("name"))...)
			errs = append(errs, pluggable(vm, add, at)...)
		case remove != nil:
			errs = append(errs, requestName(remove.Name, removed, at.Child("removeVolumeOptions", "name"))...)
		default:
			errs = append(errs, field.Required(at, "give addVolumeOptions or removeVolumeOptions").WithOrigin("disks/request-empty"))
		}
	}
	return errs
}

func requestName(name string, seen map[string]bool, at *field.Path) field.ErrorList {
	if seen[name] {
		return field.ErrorList{field.Duplicate(at, name).WithOrigin("disks/request-twice")}
	}
	seen[name] = true
	return nil
}

// pluggable is ValidateHotplugDiskConfiguration and, for the disk itself, the rules of disks that need no volume.
func pluggable(vm *v1.VirtualMachine, add *v1.AddVolumeOptions, path *field.Path) (errs field.ErrorList) {
	if other := templateVolume(vm, add.Name); other != nil && !sameClaim(other, add.VolumeSource) {
		errs = append(errs, field.Invalid(path.Child("name"), add.Name,
			"is already used by another volume of spec.template.spec.volumes: choose another name").WithOrigin("disks/request-conflict"))
	}
	at := path.Child("disk")
	if add.Disk == nil {
		return append(errs, field.Required(at, "give the disk that presents the volume to the guest").WithOrigin("disks/request-disk"))
	}
	kind, target := bus(add.Disk)
	switch target {
	case "disk":
		errs = append(errs, supported(at.Child("disk", "bus"), kind, hotplugBuses(target)...).WithOrigin("disks/request-bus")...)
	case "lun":
		errs = append(errs, supported(at.Child("lun", "bus"), kind, hotplugBuses(target)...).WithOrigin("disks/request-lun-bus")...)
	default:
		errs = append(errs, field.Invalid(at, add.Name, "must be a disk or a lun: other targets cannot be hotplugged").WithOrigin("disks/request-target"))
	}
	if order := add.Disk.BootOrder; order != nil && *order < 1 {
		errs = append(errs, field.Invalid(at.Child("bootOrder"), *order, "must be at least 1").WithOrigin("disks/request-boot-order"))
	}
	return append(errs, requestedDisk(add.Disk, at)...)
}

// hotplugBuses returns the buses on which a disk or lun can be hotplugged.
func hotplugBuses(target string) []v1.DiskBus {
	return hardware.BusNames(func(b *hardware.DiskBus) bool { return b.Hotplug && b.Has(target) })
}

// requestedDisk applies the rules of domain.devices.disks to the disk of a request, as a list of one disk. at is the path of the request.
func requestedDisk(disk *v1.Disk, at *field.Path) (errs field.ErrorList) {
	in := func(_ int, names ...string) *field.Path { return at.Child(names[0], names[1:]...) }
	for _, judge := range []func([]v1.Disk, places) field.ErrorList{diskForms, diskDriverForms, blockSizeForms} {
		errs = append(errs, judge([]v1.Disk{*disk}, in)...)
	}
	return errs
}

func templateVolume(vm *v1.VirtualMachine, name string) *v1.Volume {
	if vm.Spec.Template == nil {
		return nil
	}
	for i := range vm.Spec.Template.Spec.Volumes {
		if volume := &vm.Spec.Template.Spec.Volumes[i]; volume.Name == name {
			return volume
		}
	}
	return nil
}

// sameClaim reports whether the template has already what a request adds: then the name is no conflict.
func sameClaim(volume *v1.Volume, source *v1.HotplugVolumeSource) bool {
	return source != nil && equality.Semantic.DeepEqual(volume.PersistentVolumeClaim, source.PersistentVolumeClaim) &&
		equality.Semantic.DeepEqual(volume.DataVolume, source.DataVolume)
}
