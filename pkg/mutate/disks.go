package mutate

import (
	"cmp"
	"strings"

	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/hardware"
	corev1 "k8s.io/api/core/v1"
	v1 "kubevirt.io/api/core/v1"
)

// Fields: domain.devices.disks, volumes[].containerDisk.imagePullPolicy.

// pullPolicy is setDefaultPullPoliciesOnContainerDisks: Always for an image with tag latest or without tag and digest, else IfNotPresent,
// as Kubernetes does for containers. The image of kernelBoot has no default in KubeVirt, and none here.
func pullPolicy(vmi *v1.VirtualMachineInstance, _ config.Defaults) {
	for i := range vmi.Spec.Volumes {
		disk := vmi.Spec.Volumes[i].ContainerDisk
		if disk == nil || disk.ImagePullPolicy != "" {
			continue
		}
		disk.ImagePullPolicy = DefaultPullPolicy(disk.Image)
	}
}

// DefaultPullPolicy returns the pull policy of a container disk without imagePullPolicy.
func DefaultPullPolicy(image string) corev1.PullPolicy {
	if isLatest(image) {
		return corev1.PullAlways
	}
	return corev1.PullIfNotPresent
}

// isLatest reports whether an image reference '[registry[:port]/]name[:tag][@digest]' has no digest, and no tag except 'latest'. Trap: a
// colon before the last slash belongs to the registry's port; KubeVirt takes it for the beginning of a tag.
func isLatest(image string) bool {
	name := image[strings.LastIndexByte(image, '/')+1:]
	if strings.Contains(name, "@") {
		return false
	}
	_, tag, tagged := strings.Cut(name, ":")
	return !tagged || tag == "latest"
}

// volumeDisks is SetDefaultVolumeDisk: a volume without a disk or file system of its name gets a disk. A memoryDump volume gets none,
// unlike in KubeVirt: the guest's memory is written there, and no disk can be rendered for it.
func volumeDisks(vmi *v1.VirtualMachineInstance, _ config.Defaults) {
	devices := &vmi.Spec.Domain.Devices
	used := map[string]bool{}
	for _, disk := range devices.Disks {
		used[disk.Name] = true
	}
	for _, fs := range devices.Filesystems {
		used[fs.Name] = true
	}
	for _, volume := range vmi.Spec.Volumes {
		if !used[volume.Name] && volume.MemoryDump == nil {
			devices.Disks = append(devices.Disks, v1.Disk{Name: volume.Name})
		}
	}
}

// diskTargets is SetDefaults_DiskDevice and SetDefaults_CDRomTarget: a disk without disk, cdrom and lun is a disk; a CD-ROM is read-only
// and its tray closed. blockSize.matchVolume is on if it is present, as every FeatureState.
func diskTargets(vmi *v1.VirtualMachineInstance, _ config.Defaults) {
	for i := range vmi.Spec.Domain.Devices.Disks {
		disk := &vmi.Spec.Domain.Devices.Disks[i]
		if disk.Disk == nil && disk.CDRom == nil && disk.LUN == nil {
			disk.Disk = &v1.DiskTarget{}
		}
		if cdrom := disk.CDRom; cdrom != nil {
			if cdrom.ReadOnly == nil {
				cdrom.ReadOnly = new(true)
			}
			if cdrom.Tray == "" {
				cdrom.Tray = v1.TrayStateClosed
			}
		}
		if size := disk.BlockSize; size != nil && size.MatchVolume != nil && size.MatchVolume.Enabled == nil {
			size.MatchVolume.Enabled = new(true)
		}
	}
}

// diskBuses is setDefaultAmd64DisksBus, setDefaultArm64DisksBus and setDefaultS390xDisksBus. An unknown architecture gets the buses of
// amd64, as in KubeVirt. Traps: KubeVirt's default for a CD-ROM on architectures without SATA is virtio, which it then refuses; and its default for a LUN
// is sata or virtio, as for a disk, which pass no SCSI commands, so that the guest cannot start. Kiln's default is scsi for both.
func diskBuses(vmi *v1.VirtualMachineInstance, _ config.Defaults) {
	disk, cdrom := v1.DiskBusVirtio, v1.DiskBusSCSI
	if hardware.Bus(v1.DiskBusSATA).On(vmi.Spec.Architecture) {
		disk, cdrom = v1.DiskBusSATA, v1.DiskBusSATA
	}
	for i := range vmi.Spec.Domain.Devices.Disks {
		d := &vmi.Spec.Domain.Devices.Disks[i]
		// A disk may have two targets here: validate refuses it later.
		if d.Disk != nil {
			d.Disk.Bus = cmp.Or(d.Disk.Bus, disk)
		}
		if d.CDRom != nil {
			d.CDRom.Bus = cmp.Or(d.CDRom.Bus, cdrom)
		}
		if d.LUN != nil {
			d.LUN.Bus = cmp.Or(d.LUN.Bus, v1.DiskBusSCSI)
		}
	}
}
