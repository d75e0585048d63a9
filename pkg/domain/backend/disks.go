package backend

import (
	"slices"

	"github.com/kilnvm/kiln/pkg/domain/abi"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"
)

// Elements: disk/source, disk/driver (name, type, iothread), disk/backingStore, filesystem/source. API fields: disks[].cache, io, errorPolicy,
// shareable. Caches, modes and limits are in disks_policy.go.
// KubeVirt: converter/storage/{disk,volume,virtiofs}.go. libvirt: "Hard drives, floppy disks, CDROMs" and "Filesystems".

func (h *host) completeDisks() []libvirtxml.DomainDisk {
	out := slices.Clone(h.Frontend.Devices.Disks)
	for i := range out {
		h.completeDisk(&out[i], h.specOf(i, abi.Name("disk", out[i].Alias)))
	}
	return out
}

// specOf returns the index in the spec of the disk at an index of the frontend, which is the same: stage 2 keeps the order.
func (h *host) specOf(i int, name string) int {
	specs := h.spec.Domain.Devices.Disks
	if i < len(specs) && specs[i].Name == name {
		return i
	}
	return max(0, slices.IndexFunc(specs, func(d v1.Disk) bool { return d.Name == name }))
}

// completeDisk adds driver and source to the disk with an index in the spec. A disk whose volume has no binding is an error, except for an empty CD-ROM
// drive, which has no volume.
func (h *host) completeDisk(disk *libvirtxml.DomainDisk, i int) {
	spec := &h.spec.Domain.Devices.Disks[i]
	name, driver := spec.Name, &libvirtxml.DomainDiskDriver{}
	if disk.Driver != nil {
		*driver = *disk.Driver
	}
	driver.Name, driver.Type = "qemu", "raw"
	disk.Driver = driver
	volume, bound := h.Bindings.Volumes[name]
	if !bound {
		if at, has := h.volumePath(name); has {
			h.addError(field.Invalid(at, name, h.nodeName()+" has no binding for this volume"))
		}
		return // an empty CD-ROM drive
	}
	driver.Type = volume.Format
	h.tuneDisk(disk, i, volume)
	if hasIOThreads(spec) {
		driver.IOThread, driver.IOThreads = h.plan.forDisk(i), h.plan.poolThreads()
	}
	disk.Source = fileSource(volume.Path, volume.Block)
	if volume.Network != nil {
		disk.Source = h.networkSource(name, volume.Network)
	}
	if volume.Encrypted {
		disk.Source.Encryption = &libvirtxml.DomainDiskEncryption{Format: "luks",
			Secrets: []libvirtxml.DomainDiskSecret{{Type: "passphrase", UUID: h.secretUUID("luks/" + name)}}}
	}
	if spec.LUN != nil && spec.LUN.Reservation { // libvirt starts qemu-pr-helper; KubeVirt has one on the node
		disk.Source.Reservations = &libvirtxml.DomainDiskReservations{Managed: "yes"}
	}
	if volume.Backing != "" {
		disk.BackingStore = &libvirtxml.DomainDiskBackingStore{Format: &libvirtxml.DomainDiskFormat{Type: volume.BackingFormat},
			Source: fileSource(volume.Backing, volume.BackingBlock), BackingStore: &libvirtxml.DomainDiskBackingStore{}}
	}
}

// fileSource returns the source of a disk that is a file or a block device of the host. A backing image is opened read-only and ends the chain: without an
// explicit empty backingStore, libvirt would probe the image, whose header is a tenant's.
func fileSource(path string, block bool) *libvirtxml.DomainDiskSource {
	if block {
		return &libvirtxml.DomainDiskSource{Block: &libvirtxml.DomainDiskSourceBlock{Dev: path}}
	}
	return &libvirtxml.DomainDiskSource{File: &libvirtxml.DomainDiskSourceFile{File: path}}
}

// volumePath returns the field of a volume in the spec; false for a disk without one.
func (h *host) volumePath(name string) (*field.Path, bool) {
	i := slices.IndexFunc(h.spec.Volumes, func(v v1.Volume) bool { return v.Name == name })
	return field.NewPath("spec", "volumes").Index(i), i >= 0
}

// virtiofsQueue is the length of the request queue, KubeVirt's and the longest that virtiofsd supports.
const virtiofsQueue = 1024

func (h *host) completeFilesystems() []libvirtxml.DomainFilesystem {
	out := slices.Clone(h.Frontend.Devices.Filesystems)
	for i := range out {
		name := abi.Name("filesystem", out[i].Alias)
		socket := h.Bindings.Filesystems[name]
		if socket == "" {
			h.addError(field.Invalid(h.domain.Child("devices", "filesystems").Index(i), name, h.nodeName()+" has no virtiofsd socket for this file system"))
		}
		out[i].Source = &libvirtxml.DomainFilesystemSource{Mount: &libvirtxml.DomainFilesystemSourceMount{Socket: socket}}
		driver := *out[i].Driver
		driver.Queue = virtiofsQueue
		out[i].Driver = &driver
		out[i].AccessMode = "passthrough"
	}
	return out
}
