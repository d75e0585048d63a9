package launch

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kilnvm/kiln/pkg/domain/backend"
	"k8s.io/apimachinery/pkg/api/resource"
	v1 "kubevirt.io/api/core/v1"
)

// bindVolume makes or finds what a volume of the VMI is on this machine. dir holds what lives as long as the VMI.
func (h *Host) bindVolume(vmi *v1.VirtualMachineInstance, volume v1.Volume, dir string) (backend.Volume, error) {
	own := func(suffix string) string { return filepath.Join(dir, volume.Name+suffix) }
	switch {
	case volume.HostDisk != nil:
		return h.hostDisk(volume.HostDisk)
	case claimName(volume) != "":
		return h.claim(vmi.Namespace, claimName(volume))
	case volume.ContainerDisk != nil:
		return h.containerDisk(volume.ContainerDisk, own(".qcow2"))
	case volume.EmptyDisk != nil:
		return emptyDisk(own(".qcow2"), volume.EmptyDisk.Capacity.Value())
	case volume.CloudInitNoCloud != nil:
		file := own(".iso")
		return backend.Volume{Path: file, Format: "raw"}, noCloud(file, vmi, volume.CloudInitNoCloud)
	}
	return backend.Volume{}, errors.New("this kind of volume needs a cluster's storage, which a bare machine does not have; " +
		"use containerDisk, hostDisk, emptyDisk, cloudInitNoCloud or a claim that its administrator describes")
}

// administrators are the folders below --volume-root that no guest may have disks in: it would read the keys of others, describe claims
// to itself, or write into images that all boot from.
var administrators = []string{claimsDir, imagesDir}

// hostDisk serves a raw image by path. Its format is never probed: a guest can write any header into its own disk.
func (h *Host) hostDisk(source *v1.HostDisk) (backend.Volume, error) {
	rel, err := h.Volumes.Below(source.Path)
	if err != nil {
		return backend.Volume{}, err
	}
	if folder, _, _ := strings.Cut(rel, "/"); slices.Contains(administrators, folder) {
		return backend.Volume{}, fmt.Errorf("path '%s' is in a folder of the machine's administrator; host disks lie elsewhere below --volume-root", source.Path)
	}
	if source.Type == v1.HostDiskExistsOrCreate {
		if source.Capacity.Cmp(resource.Quantity{}) <= 0 {
			return backend.Volume{}, fmt.Errorf("type '%s' needs a 'capacity' above zero", source.Type)
		}
		if err := h.Volumes.Create(rel, source.Capacity.Value()); err != nil {
			return backend.Volume{}, err
		}
	}
	file, info, err := h.Volumes.File(rel)
	if err != nil {
		return backend.Volume{}, err
	}
	return backend.Volume{Path: file, Format: "raw", Block: !info.Mode().IsRegular()}, nil
}

// containerDisk serves the disk of an image's tree read-only below an overlay.
func (h *Host) containerDisk(source *v1.ContainerDiskSource, file string) (backend.Volume, error) {
	rel, err := h.Volumes.imageFile(source.Image, source.Path)
	if err != nil {
		return backend.Volume{}, err
	}
	base, _, err := h.Volumes.File(rel)
	if err != nil {
		return backend.Volume{}, err
	}
	format, err := probe(base)
	if err != nil {
		return backend.Volume{}, err
	}
	return overlay(file, base, format)
}

// bindKernel finds the kernel and initrd of kernelBoot in an image's tree.
func (h *Host) bindKernel(container *v1.KernelBootContainer, bindings *backend.Bindings) error {
	for _, file := range []struct {
		path string
		to   *string
	}{{container.KernelPath, &bindings.Kernel}, {container.InitrdPath, &bindings.Initrd}} {
		if file.path == "" {
			continue
		}
		rel, err := h.Volumes.imageFile(container.Image, file.path)
		if err != nil {
			return err
		}
		if *file.to, _, err = h.Volumes.File(rel); err != nil {
			return err
		}
	}
	return nil
}
