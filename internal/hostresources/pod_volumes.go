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

// volumeSource finds a volume among the mounts of the pod. The files that it creates live as long as the pod.
func (p *Pod) volumeSource(ctx context.Context, vmi *v1.VirtualMachineInstance, volume v1.Volume) (volumeSource, error) {
	if !slices.ContainsFunc(vmi.Spec.Domain.Devices.Disks, func(disk v1.Disk) bool { return disk.Name == volume.Name }) {
		return volumeSource{}, errUnusedVolume // a file system of virtiofs, a table of ACPI, the target of a memory dump
	}
	own := filepath.Join(p.folder(), volume.Name)
	switch {
	case claimName(volume) != "":
		return p.claimDisk(vmi, volume.Name)
	case volume.Ephemeral != nil:
		return p.ephemeralOverlay(volume.Name, own+".qcow2")
	case volume.ContainerDisk != nil:
		tree, err := p.openVolume(volume.Name)
		if err != nil {
			return volumeSource{}, err
		}
		defer tree.Close()
		return tree.overlayOf(ctx, volume.ContainerDisk.Path, own+".qcow2")
	case volume.EmptyDisk != nil:
		return emptyDisk(own+".qcow2", volume.EmptyDisk.Capacity.Value()), nil
	case volume.CloudInitNoCloud != nil, volume.CloudInitConfigDrive != nil:
		return p.cloudInit(vmi, volume, own+".iso")
	case volume.HostDisk != nil:
		return volumeSource{}, errors.New("a pod has no files of its node; use a PersistentVolumeClaim instead of a hostDisk")
	}
	if label, known := fileLabel(volume); known {
		return p.fileImage(volume.Name, own+".iso", label)
	}
	return volumeSource{}, errors.New("this kind of volume is not supported in a pod")
}

// claimDisk returns the disk of a PersistentVolumeClaim: its block device, or the file disk.img in its file system. The format is raw, as in KubeVirt. It is
// never detected, because a guest may write any header into its own disk.
func (p *Pod) claimDisk(vmi *v1.VirtualMachineInstance, volume string) (volumeSource, error) {
	return p.findDisk(volume, func(tree *Root) error { return tree.createDisk(requestedSize(vmi, volume)) })
}

// ephemeralOverlay describes an overlay over a claim. The claim is mounted read-only.
func (p *Pod) ephemeralOverlay(volume, path string) (volumeSource, error) {
	base, err := p.findDisk(volume, func(*Root) error { return nil })
	if err != nil {
		return volumeSource{}, err
	}
	return overlayFile(path, base.Volume), nil
}

// findDisk finds the disk of a claim. It calls create before it looks for a file.
func (p *Pod) findDisk(volume string, create func(*Root) error) (volumeSource, error) {
	device, block, err := p.blockDevice(volume)
	if err != nil {
		return volumeSource{}, err
	}
	if block {
		return volumeSource{Volume: backend.Volume{Path: device, Format: "raw", Block: true}}, nil
	}
	tree, err := p.openVolume(volume)
	if err != nil {
		return volumeSource{}, err
	}
	defer tree.Close()
	if err := create(tree); err != nil {
		return volumeSource{}, err
	}
	file, err := tree.regularFile(pod.DiskFile)
	return volumeSource{Volume: backend.Volume{Path: file, Format: "raw"}}, err
}

const (
	// reservedBytes is the part of a file system that a new disk leaves free: KubeVirt's minimumReservePVCBytes.
	reservedBytes = 128 << 10
	// toleratedPercent is the part of the requested size that a file system may lack, because it needs some space for itself: KubeVirt's lessPVCSpaceToleration.
	toleratedPercent = 10
)

// createDisk creates a sparse disk.img unless it exists. size is the size that the claim requested, 0 if it is not known. If the file system has less space,
// the disk gets all of it.
func (r *Root) createDisk(size int64) error {
	if _, err := r.root.Lstat(pod.DiskFile); err == nil {
		return nil
	}
	free, err := freeBytes(r.dir)
	if err != nil {
		return err
	}
	free -= reservedBytes
	switch {
	case free < blockAlignment:
		return fmt.Errorf("%s has no room for %s", r.name, pod.DiskFile)
	case size == 0:
		size = free
	case free < size-size/100*toleratedPercent:
		return fmt.Errorf("%s has room for a disk of %d bytes, and its claim asked for %d", r.name, free, size)
	}
	return r.Create(pod.DiskFile, min(size, free)/blockAlignment*blockAlignment)
}

// requestedSize returns the size of a claim from the VMI's status: the requested size, or the capacity if it is less. It returns 0 if the status does not
// have it.
func requestedSize(vmi *v1.VirtualMachineInstance, volume string) int64 {
	for _, status := range vmi.Status.VolumeStatus {
		info := status.PersistentVolumeClaimInfo
		if status.Name != volume || info == nil {
			continue
		}
		capacity, request := info.Capacity[corev1.ResourceStorage], info.Requests[corev1.ResourceStorage]
		if both := capacity.Sign() > 0 && request.Sign() > 0; both && request.Cmp(capacity) > 0 {
			return capacity.Value()
		}
		return cmp.Or(atLeastZero(request), atLeastZero(capacity))
	}
	return 0
}

func atLeastZero(q resource.Quantity) int64 { return max(0, q.Value()) }
