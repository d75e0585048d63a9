package pod

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// Fields: volumes, domain.devices.disks, domain.devices.filesystems, utilityVolumes. Claims are in disks_claims.go, other types in disks_sources.go.
// kubelet mounts what the volumes of the VMI name, where the launcher finds it (paths.go). emptyDisk and overlays are files in Private: each is as large
// as its disk at most, so they need no sizeLimit.

var diskEffects = []Effect{
	{"domain.devices.filesystems[].virtiofs", Refused, virtiofsReason,
		func(g guest) []int {
			return indexesOf(g.spec.Domain.Devices.Filesystems, func(*v1.Filesystem) bool { return true })
		}},
	{"domain.devices.disks[].lun.reservation", Refused, "needs the helper for persistent reservations of the host, which restricted pods cannot reach",
		func(g guest) []int {
			return indexesOf(g.spec.Domain.Devices.Disks, func(d *v1.Disk) bool { return d.LUN != nil && d.LUN.Reservation })
		}},
	{"domain.devices.disks[].changedBlockTracking", Warned, "has no effect: there are no incremental backups", func(g guest) []int {
		return indexesOf(g.spec.Domain.Devices.Disks, func(d *v1.Disk) bool { return d.ChangedBlockTracking != nil })
	}},
	{"domain.devices.disks[].tag", Warned, tagReason, func(g guest) []int {
		return indexesOf(g.spec.Domain.Devices.Disks, func(d *v1.Disk) bool { return d.Tag != "" })
	}},
	{"volumes[].hostDisk", Refused, "is a path of the node, which restricted pods have not: use a persistentVolumeClaim",
		volumeIndexes(func(v *v1.Volume) bool { return v.HostDisk != nil })},
	{"volumes[].containerPath", Refused, virtiofsReason,
		volumeIndexes(func(v *v1.Volume) bool { return v.ContainerPath != nil })},
	{"volumes[].downwardMetrics", Refused, "needs the metrics of the node, which restricted pods cannot read: remove volume and disk",
		volumeIndexes(func(v *v1.Volume) bool { return v.DownwardMetrics != nil })},
	{"volumes[].persistentVolumeClaim.claimName", Refused, readOnlyReason, func(g guest) []int {
		return indexesOf(g.spec.Volumes, func(v *v1.Volume) bool { return v.PersistentVolumeClaim != nil && g.writesReadOnlyClaim(v) })
	}},
	{"volumes[].dataVolume.name", Refused, readOnlyReason, func(g guest) []int {
		return indexesOf(g.spec.Volumes, func(v *v1.Volume) bool { return v.DataVolume != nil && g.writesReadOnlyClaim(v) })
	}},
	{"volumes[].memoryDump", Warned, "has no effect: there are no memory dumps",
		volumeIndexes(func(v *v1.Volume) bool { return v.MemoryDump != nil })},
	{"utilityVolumes[]", Warned, "has no effect: nothing is plugged into a running guest", func(g guest) []int {
		return indexesOf(g.spec.UtilityVolumes, func(*v1.UtilityVolume) bool { return true })
	}},
}

const (
	readOnlyReason = "names a claim that the pod may only read: set readonly of the disk, or use a volume of type ephemeral"
	// virtiofsReason is what virtiofsd of QEMU 7.2 does in a restricted pod, by its log: 'unshare: Operation not permitted', and with sandbox=chroot
	// 'chroot: Operation not permitted'. virtiofsd of the rust-vmm project can do without a sandbox; neither Debian 12 nor its backports have it.
	virtiofsReason = "needs virtiofsd, whose sandbox (unshare or chroot) a restricted pod may not make: use a disk"
	// tagReason completes the path of a word for the guest's metadata.
	tagReason = "has no effect: cloud-init data lists no devices"
)

func volumeIndexes(holds func(*v1.Volume) bool) func(guest) []int {
	return func(g guest) []int { return indexesOf(g.spec.Volumes, holds) }
}

// mounted are the pod's volumes, and their paths in the container.
type mounted struct {
	volumes []corev1.Volume
	mounts  []corev1.VolumeMount
	devices []corev1.VolumeDevice
}

// addVolume adds a volume. The mount needs no name.
func (m *mounted) addVolume(volume corev1.Volume, at corev1.VolumeMount) {
	at.Name = volume.Name
	m.volumes, m.mounts = append(m.volumes, volume), append(m.mounts, at)
}

func (m *mounted) addEmptyDir(name, path string, medium corev1.StorageMedium) {
	m.addVolume(corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: medium}}},
		corev1.VolumeMount{MountPath: path})
}

// addImage mounts the files of an image, which Kubernetes does from version 1.35 on.
func (m *mounted) addImage(name, path string, image corev1.ImageVolumeSource) {
	m.addVolume(corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{Image: &image}}, corev1.VolumeMount{MountPath: path, ReadOnly: true})
}

// mountStorage returns all that is mounted. The errors are claims that do not exist.
func (g guest) mountStorage() (m mounted, errs field.ErrorList) {
	m.addEmptyDir("private", Private, corev1.StorageMediumDefault)
	m.addEmptyDir("temporary", Temporary, corev1.StorageMediumDefault)
	g.mountHugePages(&m)
	g.mountState(&m)
	g.mountKernel(&m)
	g.mountCredentials(&m)
	for i := range g.spec.Volumes {
		v := &g.spec.Volumes[i]
		name, path := volumeName("volume", v.Name), VolumePath(v.Name)
		if claim := claimOf(v, g.path.Child("volumes").Index(i)); claim != nil {
			if err := g.mountClaim(&m, v, claim); err != nil {
				errs = append(errs, err)
			}
		} else if source := fileSource(v); source != nil {
			m.addVolume(corev1.Volume{Name: name, VolumeSource: *source}, corev1.VolumeMount{MountPath: path, ReadOnly: true})
		} else if disk := v.ContainerDisk; disk != nil {
			m.addImage(name, path, corev1.ImageVolumeSource{Reference: disk.Image, PullPolicy: disk.ImagePullPolicy})
		}
		m.addCloudInit(v)
	}
	return m, errs
}
