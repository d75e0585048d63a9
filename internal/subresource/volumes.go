package subresource

import (
	"context"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/util/retry"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// addvolume and removevolume change the template of a VM, as KubeVirt does with its feature gate DeclarativeHotplugVolumes. The change takes effect at the
// next start of the VM, and the condition RestartRequired reports it.

func (a *API) addVolume(ctx context.Context, c call) (reply, error) {
	options := &v1.AddVolumeOptions{}
	if err := c.decodeBody(options); err != nil {
		return reply{}, err
	}
	var missing field.ErrorList
	if options.Name == "" {
		missing = append(missing, field.Required(field.NewPath("name"), ""))
	}
	if options.Disk == nil {
		missing = append(missing, field.Required(field.NewPath("disk"), ""))
	}
	if options.VolumeSource == nil || options.VolumeSource.PersistentVolumeClaim == nil && options.VolumeSource.DataVolume == nil {
		missing = append(missing, field.Required(field.NewPath("volumeSource"), "name a persistentVolumeClaim or a dataVolume"))
	}
	if len(missing) > 0 {
		return reply{}, apierrors.NewBadRequest("AddVolumeOptions: " + missing.ToAggregate().Error())
	}
	return a.changeVolumes(ctx, c, options.DryRun, func(vm *v1.VirtualMachine) error { return plugVolume(vm, options) })
}

func (a *API) removeVolume(ctx context.Context, c call) (reply, error) {
	options := &v1.RemoveVolumeOptions{}
	if err := c.decodeBody(options); err != nil {
		return reply{}, err
	}
	if options.Name == "" {
		return reply{}, apierrors.NewBadRequest("RemoveVolumeOptions: " + field.Required(field.NewPath("name"), "").Error())
	}
	return a.changeVolumes(ctx, c, options.DryRun, func(vm *v1.VirtualMachine) error { return unplugVolume(vm, options.Name) })
}

// changeVolumes changes the template of a VM, and tries again if another process has written the VM meanwhile. Admission validates the result.
func (a *API) changeVolumes(ctx context.Context, c call, dry []string, change func(*v1.VirtualMachine) error) (reply, error) {
	dry, err := dryRun(dry)
	if err != nil {
		return reply{}, err
	}
	var decided error
	err = retry.OnError(retry.DefaultBackoff, apierrors.IsConflict, func() error {
		var vm *v1.VirtualMachine
		if vm, decided = c.readVM(ctx, a.Live); decided != nil {
			return nil
		}
		changed := vm.DeepCopy()
		if decided = change(changed); decided != nil {
			return nil
		}
		return a.Live.Patch(ctx, changed, lockedPatch(vm), &client.PatchOptions{DryRun: dry, FieldManager: manager})
	})
	if decided != nil {
		err = decided
	}
	return accepted, err
}

// plugVolume adds a volume and its disk. It sets hotpluggable in the volume, as KubeVirt does, so that the volume may be removed.
func plugVolume(vm *v1.VirtualMachine, options *v1.AddVolumeOptions) error {
	if vm.Spec.Template == nil {
		return vmConflict(vm.Name, "the VM has no template")
	}
	source := v1.VolumeSource{}
	if given := options.VolumeSource.DataVolume; given != nil {
		source.DataVolume = given.DeepCopy()
		source.DataVolume.Hotpluggable = true
	} else {
		source.PersistentVolumeClaim = options.VolumeSource.PersistentVolumeClaim.DeepCopy()
		source.PersistentVolumeClaim.Hotpluggable = true
	}
	added := v1.Volume{Name: options.Name, VolumeSource: source}
	spec := &vm.Spec.Template.Spec
	for i := range spec.Volumes {
		switch {
		case spec.Volumes[i].Name == added.Name:
			return vmConflict(vm.Name, "Unable to add volume [%s] because volume with that name already exists", added.Name)
		case claimOf(&spec.Volumes[i]) == claimOf(&added):
			return vmConflict(vm.Name, "Unable to add volume source [%s] because it already exists", claimOf(&added))
		}
	}
	disk := options.Disk.DeepCopy()
	disk.Name = options.Name
	spec.Volumes = append(spec.Volumes, added)
	spec.Domain.Devices.Disks = append(spec.Domain.Devices.Disks, *disk)
	return nil
}

// unplugVolume removes a volume and its disk. name is the name of the volume or of its claim.
func unplugVolume(vm *v1.VirtualMachine, name string) error {
	if vm.Spec.Template == nil {
		return vmConflict(vm.Name, "the VM has no template")
	}
	spec := &vm.Spec.Template.Spec
	i := slices.IndexFunc(spec.Volumes, func(v v1.Volume) bool { return v.Name == name || claimOf(&v) == name })
	if i < 0 {
		return vmConflict(vm.Name, "Unable to remove volume [%s] because it does not exist", name)
	}
	if !isHotpluggable(&spec.Volumes[i]) {
		return vmConflict(vm.Name, "Unable to remove volume [%s] because it is not hotpluggable", spec.Volumes[i].Name)
	}
	name = spec.Volumes[i].Name
	spec.Volumes = slices.Delete(spec.Volumes, i, i+1)
	spec.Domain.Devices.Disks = slices.DeleteFunc(spec.Domain.Devices.Disks, func(d v1.Disk) bool { return d.Name == name })
	return nil
}

// claimOf returns the name of the claim of a volume; empty for a volume of another kind. The claim of a DataVolume has the name of the DataVolume.
func claimOf(volume *v1.Volume) string {
	switch {
	case volume.PersistentVolumeClaim != nil:
		return volume.PersistentVolumeClaim.ClaimName
	case volume.DataVolume != nil:
		return volume.DataVolume.Name
	}
	return ""
}

func isHotpluggable(volume *v1.Volume) bool {
	return volume.PersistentVolumeClaim != nil && volume.PersistentVolumeClaim.Hotpluggable ||
		volume.DataVolume != nil && volume.DataVolume.Hotpluggable
}
