package hostresources

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/kilnvm/kiln/pkg/domain/backend"
	"github.com/kilnvm/kiln/pkg/pod"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	v1 "kubevirt.io/api/core/v1"
)

// source finds a volume of the VMI among the mounts of the pod. Files that the pod makes of it live as long as the pod.
func (p *Pod) source(ctx context.Context, vmi *v1.VirtualMachineInstance, volume v1.Volume) (source, error) {
	if !slices.ContainsFunc(vmi.Spec.Domain.Devices.Disks, func(disk v1.Disk) bool { return disk.Name == volume.Name }) {
		return source{}, errNoDisk // a file system of virtiofs, a table of ACPI, the target of a memory dump
	}
	own := filepath.Join(p.folder(), volume.Name)
	switch {
	case claimName(volume) != "":
		return p.claim(vmi, volume.Name)
	case volume.Ephemeral != nil:
		return p.ephemeral(volume.Name, own+".qcow2")
	case volume.ContainerDisk != nil:
		tree, err := p.mount(volume.Name)
		if err != nil {
			return source{}, err
		}
		defer tree.Close()
		return tree.overlayOf(ctx, volume.ContainerDisk.Path, own+".qcow2")
	case volume.EmptyDisk != nil:
		return emptyDisk(own+".qcow2", volume.EmptyDisk.Capacity.Value()), nil
	case volume.CloudInitNoCloud != nil, volume.CloudInitConfigDrive != nil:
		return p.cloudInit(vmi, volume, own+".iso")
	case volume.HostDisk != nil:
		return source{}, errors.New("a pod has no files of its node; use a PersistentVolumeClaim instead of a hostDisk")
	}
	if label, known := fileLabel(volume); known {
		return p.fileImage(volume.Name, own+".iso", label)
	}
	return source{}, errors.New("this kind of volume is not supported in a pod")
}

// claim returns the disk of a PersistentVolumeClaim: its block device, or the file disk.img in its file system. A guest may write any header into its own
// disk, so the format is never probed: it is raw, as in KubeVirt.
func (p *Pod) claim(vmi *v1.VirtualMachineInstance, volume string) (source, error) {
	return p.disk(volume, func(tree *Root) error { return tree.createDisk(requested(vmi, volume)) })
}

// ephemeral describes an overlay over a claim, which is mounted read-only.
func (p *Pod) ephemeral(volume, path string) (source, error) {
	base, err := p.disk(volume, func(*Root) error { return nil })
	if err != nil {
		return source{}, err
	}
	return overlay(path, base.Volume), nil
}

// disk finds the disk of a claim. create makes the file if there is none.
func (p *Pod) disk(volume string, create func(*Root) error) (source, error) {
	device, block, err := p.device(volume)
	if err != nil {
		return source{}, err
	}
	if block {
		return source{Volume: backend.Volume{Path: device, Format: "raw", Block: true}}, nil
	}
	tree, err := p.mount(volume)
	if err != nil {
		return source{}, err
	}
	defer tree.Close()
	if err := create(tree); err != nil {
		return source{}, err
	}
	file, err := tree.content(pod.DiskFile)
	return source{Volume: backend.Volume{Path: file, Format: "raw"}}, err
}

const (
	// reserve is the part of a file system that a new disk leaves free, in bytes. It is KubeVirt's minimumReservePVCBytes.
	reserve = 128 << 10
	// tolerated is the part of the requested size, in percent, that a file system may lack: it needs some for itself. It is KubeVirt's
	// lessPVCSpaceToleration.
	tolerated = 10
)

// createDisk creates disk.img, sparse, unless it exists. size is what the claim asked for, 0 if that is not known. A file system without that much room
// gives all that it has.
func (r *Root) createDisk(size int64) error {
	if _, err := r.root.Lstat(pod.DiskFile); err == nil {
		return nil
	}
	free, err := available(r.dir)
	if err != nil {
		return err
	}
	free -= reserve
	switch {
	case free < alignment:
		return fmt.Errorf("%s has no room for %s", r.name, pod.DiskFile)
	case size == 0:
		size = free
	case free < size-size/100*tolerated:
		return fmt.Errorf("%s has room for a disk of %d bytes, and its claim asked for %d", r.name, free, size)
	}
	return r.Create(pod.DiskFile, min(size, free)/alignment*alignment)
}

// requested returns the size of a claim as Kiln's controller reports it in the VMI's status: what the claim asked for, or its capacity if that is less.
// It returns 0 if the status does not have it.
func requested(vmi *v1.VirtualMachineInstance, volume string) int64 {
	for _, status := range vmi.Status.VolumeStatus {
		info := status.PersistentVolumeClaimInfo
		if status.Name != volume || info == nil {
			continue
		}
		capacity, request := info.Capacity[corev1.ResourceStorage], info.Requests[corev1.ResourceStorage]
		if both := capacity.Sign() > 0 && request.Sign() > 0; both && request.Cmp(capacity) > 0 {
			return capacity.Value()
		}
		return cmp.Or(positive(request), positive(capacity))
	}
	return 0
}

func positive(q resource.Quantity) int64 { return max(0, q.Value()) }
