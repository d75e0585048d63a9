package bind

import (
	"context"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kilnvm/kiln/pkg/domain/backend"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// volumes are what the VMI's volumes are on this machine, by name, with the size of their blocks.
func (h *BareMachine) volumes(ctx context.Context, vmi *v1.VirtualMachineInstance) (map[string]backend.Volume, field.ErrorList) {
	volumes, path, errs := map[string]backend.Volume{}, field.NewPath("spec", "volumes"), field.ErrorList(nil)
	for i, volume := range vmi.Spec.Volumes {
		bound, err := h.volume(ctx, vmi, volume)
		if err == nil {
			bound, err = measured(bound)
		}
		if err != nil {
			errs = append(errs, field.Invalid(path.Index(i), volume.Name, err.Error()))
			continue
		}
		volumes[volume.Name] = bound
	}
	return volumes, errs
}

// volume makes or finds what a volume of the VMI is on this machine. What lives as long as the VMI is in its own folder.
func (h *BareMachine) volume(ctx context.Context, vmi *v1.VirtualMachineInstance, volume v1.Volume) (backend.Volume, error) {
	own := func(suffix string) string { return filepath.Join(h.Folder(vmi), volume.Name+suffix) }
	switch {
	case volume.HostDisk != nil:
		return h.hostDisk(volume.HostDisk)
	case claimName(volume) != "":
		return h.claim(vmi.Namespace, claimName(volume))
	case volume.ContainerDisk != nil:
		return h.containerDisk(ctx, volume.ContainerDisk, own(".qcow2"))
	case volume.EmptyDisk != nil:
		return emptyDisk(ctx, own(".qcow2"), volume.EmptyDisk.Capacity.Value())
	case volume.CloudInitNoCloud != nil:
		file := own(".iso")
		return backend.Volume{Path: file, Format: "raw"}, noCloud(file, vmi, volume.CloudInitNoCloud)
	}
	return backend.Volume{}, errors.New("this kind of volume needs a cluster's storage, which a bare machine does not have; " +
		"use containerDisk, hostDisk, emptyDisk, cloudInitNoCloud or a claim that its administrator describes")
}

// administrators are the folders below --volume-root that no guest may have disks in: it would write into images that all boot from, or read
// the keys of others, where claims have been left since they lay here.
var administrators = []string{imagesDir, "claims"}

// theirs refuses a path below --volume-root that is the administrator's.
func theirs(rel string) error {
	if slices.ContainsFunc(administrators, func(dir string) bool { return rel == dir || below(rel, dir) }) {
		return fmt.Errorf("'%s' is in a folder of the machine's administrator; host disks lie elsewhere below --volume-root", rel)
	}
	return nil
}

// below tells whether a clean path is that of something in a folder.
func below(file, dir string) bool {
	return strings.HasPrefix(file, strings.TrimSuffix(dir, "/")+"/")
}

// hostDisk serves a raw image by path. Its format is never probed: a guest can write any header into its own disk.
func (h *BareMachine) hostDisk(source *v1.HostDisk) (backend.Volume, error) {
	rel, err := h.Volumes.Below(source.Path)
	if err == nil {
		err = theirs(rel)
	}
	if err != nil {
		return backend.Volume{}, err
	}
	if source.Type == v1.HostDiskExistsOrCreate {
		if err := h.createDisk(rel, source); err != nil {
			return backend.Volume{}, err
		}
	}
	file, info, err := h.Volumes.File(rel)
	if err != nil {
		return backend.Volume{}, err
	}
	// Links of the administrator lead where they lead.
	if rel, err = h.Volumes.Below(file); err == nil {
		err = theirs(rel)
	}
	return backend.Volume{Path: file, Format: "raw", Block: !info.Mode().IsRegular()}, err
}

// createDisk makes a host disk, unless it is there, in a folder that is there.
func (h *BareMachine) createDisk(rel string, source *v1.HostDisk) error {
	if source.Capacity.Cmp(resource.Quantity{}) <= 0 {
		return fmt.Errorf("type '%s' needs a 'capacity' above zero", source.Type)
	}
	folder, err := h.Volumes.resolve(path.Dir(rel))
	if err != nil {
		return err
	}
	file := path.Join(folder, path.Base(rel))
	if err := theirs(file); err != nil {
		return err
	}
	return h.Volumes.Create(file, source.Capacity.Value())
}

// containerDisk serves the disk of an image's tree read-only below an overlay.
func (h *BareMachine) containerDisk(ctx context.Context, source *v1.ContainerDiskSource, file string) (backend.Volume, error) {
	base, err := h.Volumes.imageFile(source.Image, source.Path)
	if err != nil {
		return backend.Volume{}, err
	}
	format, err := probe(ctx, base)
	if err != nil {
		return backend.Volume{}, err
	}
	return overlay(ctx, file, base, format)
}
