package hostresources

import (
	"context"
	"errors"
	"path/filepath"

	"github.com/kilnvm/kiln/pkg/domain/backend"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// source is a volume as its kind describes it. Each kind returns one; only volumes writes the files of the VMI's own.
type source struct {
	backend.Volume
	// file is empty for volumes that exist without the VMI.
	file file
	// values are by the kind of the secret, luks or auth.
	values values
}

// errNoDisk is the error of a volume that no disk of the guest has: it needs no binding.
var errNoDisk = errors.New("no disk has this volume")

// bindVolumes binds the VMI's volumes, each as find describes it, and returns them by name, with what their storage is like, and the values of their
// secrets by reference. A volume that cannot be bound is an error at its index; the others are bound, so that the owner sees all errors at once.
func bindVolumes(ctx context.Context, all []v1.Volume, find func(v1.Volume) (source, error)) (map[string]backend.Volume, values, field.ErrorList) {
	volumes, values, path, errs := map[string]backend.Volume{}, values{}, field.NewPath("spec", "volumes"), field.ErrorList(nil)
	for i, volume := range all {
		bound, err := find(volume)
		if errors.Is(err, errNoDisk) {
			continue
		}
		if err == nil {
			err = bound.file.write(ctx)
		}
		if err == nil {
			bound.Volume, err = measured(bound.Volume)
		}
		if err != nil {
			errs = append(errs, field.Invalid(path.Index(i), volume.Name, err.Error()))
			continue
		}
		volumes[volume.Name] = direct(bound.Volume)
		for kind, value := range bound.values {
			values[kind+"/"+volume.Name] = value
		}
	}
	return volumes, values, errs
}

// source finds a volume of the VMI on this machine. The file of a volume that lives as long as the VMI is in the VMI's own folder.
func (h *BareMachine) source(ctx context.Context, vmi *v1.VirtualMachineInstance, volume v1.Volume) (source, error) {
	own, claim := filepath.Join(h.Folder(vmi), volume.Name), claimName(volume)
	switch {
	case volume.HostDisk != nil:
		return h.hostDisk(volume.HostDisk)
	case claim != "":
		return h.claim(vmi.Namespace, claim)
	case volume.ContainerDisk != nil:
		return h.containerDisk(ctx, volume.ContainerDisk, own+".qcow2")
	case volume.EmptyDisk != nil:
		return emptyDisk(own+".qcow2", volume.EmptyDisk.Capacity.Value()), nil
	case volume.CloudInitNoCloud != nil:
		return inlineNoCloud(own+".iso", vmi, volume.CloudInitNoCloud)
	}
	return source{}, errors.New("this kind of volume is not supported on a bare machine; " +
		"use containerDisk, hostDisk, emptyDisk, cloudInitNoCloud, or a claim that the machine's administrator describes below --claims")
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
