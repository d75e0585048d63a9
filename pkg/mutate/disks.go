package mutate

import (
	"cmp"
	"strings"

	"github.com/kilnvm/kiln/pkg/config"
	corev1 "k8s.io/api/core/v1"
	v1 "kubevirt.io/api/core/v1"
)

// Fields: domain.devices.disks, volumes[].containerDisk.imagePullPolicy.

// pullPolicy follows Kubernetes: an image that can change under its name is pulled always. The image of kernelBoot has no
// default, as in KubeVirt.
func pullPolicy(vmi *v1.VirtualMachineInstance, _ config.Defaults) {
	for i := range vmi.Spec.Volumes {
		disk := vmi.Spec.Volumes[i].ContainerDisk
		if disk == nil || disk.ImagePullPolicy != "" {
			continue
		}
		disk.ImagePullPolicy = corev1.PullIfNotPresent
		if isLatest(disk.Image) {
			disk.ImagePullPolicy = corev1.PullAlways
		}
	}
}

// isLatest tells whether a reference '[registry[:port]/]name[:tag][@digest]' means the newest image of its name: it has no
// digest, and its tag is 'latest' or absent. A colon before the last slash is that of the registry's port.
func isLatest(image string) bool {
	name := image[strings.LastIndexByte(image, '/')+1:]
	if strings.Contains(name, "@") {
		return false
	}
	_, tag, tagged := strings.Cut(name, ":")
	return !tagged || tag == "latest"
}

// volumeDisks gives each volume that is neither a disk nor a file system a disk of its name.
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
		if !used[volume.Name] && volume.MemoryDump == nil { // the guest's memory is written there, nothing is read
			devices.Disks = append(devices.Disks, v1.Disk{Name: volume.Name})
		}
	}
}

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

// defaultBus per architecture: arm64's virt and s390x machines have no SATA controller. A CD-ROM cannot be virtio, so that
// there it is scsi. SCSI commands, which a LUN is for, do not go over SATA.
var defaultBus = map[string]struct{ disk, cdrom, lun v1.DiskBus }{
	"arm64": {v1.DiskBusVirtio, v1.DiskBusSCSI, v1.DiskBusVirtio},
	"s390x": {v1.DiskBusVirtio, v1.DiskBusSCSI, v1.DiskBusVirtio},
}

func diskBuses(vmi *v1.VirtualMachineInstance, _ config.Defaults) {
	bus, known := defaultBus[vmi.Spec.Architecture]
	if !known {
		bus.disk, bus.cdrom, bus.lun = v1.DiskBusSATA, v1.DiskBusSATA, v1.DiskBusSCSI
	}
	for i := range vmi.Spec.Domain.Devices.Disks {
		disk := &vmi.Spec.Domain.Devices.Disks[i]
		// A disk of two kinds is validate's to refuse: each kind gets its bus.
		if disk.Disk != nil {
			disk.Disk.Bus = cmp.Or(disk.Disk.Bus, bus.disk)
		}
		if disk.CDRom != nil {
			disk.CDRom.Bus = cmp.Or(disk.CDRom.Bus, bus.cdrom)
		}
		if disk.LUN != nil {
			disk.LUN.Bus = cmp.Or(disk.LUN.Bus, bus.lun)
		}
	}
}
