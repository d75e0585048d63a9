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

// volumes binds the VMI's volumes and returns them by name, with their block sizes.
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

// volume finds or creates a volume of the VMI on this machine. Volumes that live as long as the VMI are in its own folder.
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
	return backend.Volume{}, errors.New("this kind of volume is not supported on a bare machine; " +
		"use containerDisk, hostDisk, emptyDisk, cloudInitNoCloud, or a claim that the machine's administrator describes below --claims")
}

// administrators are the folders below --volume-root in which no hostDisk may be: a guest would write into images that all boot from, or read the
// keys of others, since earlier releases kept claims there.
var administrators = []string{imagesDir, "claims"}

// checkHostDiskPath refuses a path, relative to --volume-root, in one of the administrator's folders.
func checkHostDiskPath(rel string) error {
	if slices.ContainsFunc(administrators, func(dir string) bool { return rel == dir || below(rel, dir) }) {
		return fmt.Errorf("'%s' is in a folder that is reserved for the machine's administrator; use another folder below --volume-root", rel)
	}
	return nil
}

// below reports whether a clean path is inside a folder.
func below(file, dir string) bool {
	return strings.HasPrefix(file, strings.TrimSuffix(dir, "/")+"/")
}

// hostDisk binds a raw image by path. Its format is never probed: a guest can write any header into its own disk.
func (h *BareMachine) hostDisk(source *v1.HostDisk) (backend.Volume, error) {
	rel, err := h.Volumes.Below(source.Path)
	if err == nil {
		err = checkHostDiskPath(rel)
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
	// The administrator's links may lead into those folders too.
	if rel, err = h.Volumes.Below(file); err == nil {
		err = checkHostDiskPath(rel)
	}
	return backend.Volume{Path: file, Format: "raw", Block: !info.Mode().IsRegular()}, err
}

// createDisk creates a hostDisk unless it exists, in an existing folder.
func (h *BareMachine) createDisk(rel string, source *v1.HostDisk) error {
	if source.Capacity.Cmp(resource.Quantity{}) <= 0 {
		return fmt.Errorf("type '%s' requires a 'capacity' greater than zero", source.Type)
	}
	folder, err := h.Volumes.resolve(path.Dir(rel))
	if err != nil {
		return err
	}
	file := path.Join(folder, path.Base(rel))
	if err := checkHostDiskPath(file); err != nil {
		return err
	}
	return h.Volumes.Create(file, source.Capacity.Value())
}

// containerDisk binds an overlay over the disk in an image's tree, which stays read-only.
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
