package hostresources

import (
	"context"
	"errors"
	"path/filepath"

	"github.com/kilnvm/kiln/pkg/baremachine"
	"github.com/kilnvm/kiln/pkg/domain/backend"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// volumeSource describes a volume. The functions for the kinds of volumes return it, and bindVolumes writes its file.
type volumeSource struct {
	backend.Volume
	// file is a file of the VMI's own; empty for volumes that exist without the VMI.
	file file
	// values are the secrets of the volume, by their kind: luks or auth.
	values secretValues
}

// errUnusedVolume is the error for a volume that no disk of the guest has. It needs no resource.
var errUnusedVolume = errors.New("no disk has this volume")

// bindVolumes returns the volumes of a VMI by name, as find describes them, with the properties of their storage, and the values of their secrets by
// reference. A volume that cannot be served is an error at its index. The others are served all the same, so that the owner sees all errors at once.
func bindVolumes(ctx context.Context, all []v1.Volume, find func(v1.Volume) (volumeSource, error)) (map[string]backend.Volume, secretValues, field.ErrorList) {
	volumes, values, path, errs := map[string]backend.Volume{}, secretValues{}, field.NewPath("spec", "volumes"), field.ErrorList(nil)
	for i, volume := range all {
		bound, err := find(volume)
		if errors.Is(err, errUnusedVolume) {
			continue
		}
		if err == nil {
			err = bound.file.ensureFile(ctx)
		}
		if err == nil {
			bound.Volume, err = withBlockSizes(bound.Volume)
		}
		if err != nil {
			errs = append(errs, field.Invalid(path.Index(i), volume.Name, err.Error()))
			continue
		}
		volumes[volume.Name] = withDirectIO(bound.Volume)
		for kind, value := range bound.values {
			values[kind+"/"+volume.Name] = value
		}
	}
	return volumes, values, errs
}

// volumeSource finds a volume on this machine. A volume that lives as long as the VMI has its file in the VMI's own folder.
func (h *BareMachine) volumeSource(ctx context.Context, vmi *v1.VirtualMachineInstance, volume v1.Volume) (volumeSource, error) {
	own, claim := filepath.Join(h.Folder(vmi), volume.Name), claimName(volume)
	switch {
	case volume.HostDisk != nil:
		return h.hostDisk(volume.HostDisk)
	case claim != "":
		return h.hostClaimVolume(vmi.Namespace, claim)
	case volume.ContainerDisk != nil:
		return h.containerDisk(ctx, volume.ContainerDisk, own+".qcow2")
	case volume.EmptyDisk != nil:
		return emptyDisk(own+".qcow2", volume.EmptyDisk.Capacity.Value()), nil
	case volume.CloudInitNoCloud != nil:
		return inlineNoCloud(own+".iso", vmi, volume.CloudInitNoCloud)
	}
	return volumeSource{}, errors.New(baremachine.VolumeReason)
}

// claimName returns the claim of a volume, empty for other kinds of volumes. The claim of a DataVolume has the DataVolume's name.
func claimName(volume v1.Volume) string {
	switch {
	case volume.PersistentVolumeClaim != nil:
		return volume.PersistentVolumeClaim.ClaimName
	case volume.DataVolume != nil:
		return volume.DataVolume.Name
	}
	return ""
}
