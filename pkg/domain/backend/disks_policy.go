package backend

import (
	"cmp"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	v1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"
)

// Elements: disk/driver (cache, io, discard, detect_zeroes, error_policy, rerror_policy, metadata_cache) and disk/iotune. Host profile: disk,
// diskLimits. cache, io and errorPolicy of the spec come before the profile's.
// KubeVirt: converter/converter.go (cache and io), converter/storage/disk.go.

// tuneDisk sets these elements for the disk with an index in the spec.
func (h *host) tuneDisk(out *libvirtxml.DomainDisk, i int, volume Volume) {
	p, driver, spec := h.policy.Disk, out.Driver, &h.spec.Domain.Devices.Disks[i]
	driver.Cache = h.cacheMode(i, volume)
	driver.IO = cmp.Or(string(spec.IO), p.IOPolicy)
	if driver.IO == string(v1.IONative) && volume.NoDirectIO && cmp.Or(string(spec.Cache), p.CachePolicy) == "" {
		h.failNativeIO(i)
	}
	// KubeVirt's default too: native asynchronous IO is faster on block devices, but on sparse files it blocks while blocks are allocated.
	if driver.IO == "" && driver.Cache == "none" && volume.Block {
		driver.IO = string(v1.IONative)
	}
	if spec.CDRom == nil {
		driver.Discard, driver.DetectZeros = cmp.Or(p.Discard, "unmap"), p.DetectZeroes
	}
	driver.ErrorPolicy, driver.RErrorPolicy = cmp.Or(p.ErrorPolicy, string(v1.DiskErrorPolicyStop)), p.ReadErrorPolicy
	if spec.ErrorPolicy != nil {
		driver.ErrorPolicy, driver.RErrorPolicy = string(*spec.ErrorPolicy), ""
	}
	if p.MetadataCacheSize != nil && volume.Format == "qcow2" {
		size := libvirtxml.DomainDiskMetadataCacheSize{Unit: "bytes", Value: int(bytesOf(p.MetadataCacheSize))}
		driver.MetadataCache = &libvirtxml.DomainDiskMetadataCache{MaxSize: &size}
	}
	// A LUN's SCSI commands go to the device, past QEMU's throttling: a limit would not hold.
	if spec.LUN == nil {
		out.IOTune = h.ioTune()
	}
}

// cacheMode returns the cache of the disk with an index in the spec. It bypasses the host's page cache if the file system supports O_DIRECT, as KubeVirt does:
// a write that is reported to the guest is on the disk, and memory is not used twice. A shareable disk always has cache none, because two hosts have two page
// caches.
func (h *host) cacheMode(i int, volume Volume) string {
	disk := &h.spec.Domain.Devices.Disks[i]
	shared, policy := ptr.Deref(disk.Shareable, false), h.policy.Disk.CachePolicy
	asked := cmp.Or(string(disk.Cache), policy)
	switch {
	case volume.NoDirectIO && (shared || bypassesPageCache(asked)):
		h.failDirectIO(i, asked)
		return ""
	case shared:
		return string(v1.CacheNone)
	case asked != "":
		return asked
	case volume.NoDirectIO:
		return string(v1.CacheWriteThrough)
	}
	return string(v1.CacheNone)
}

func bypassesPageCache(cache string) bool { return cache == "none" || cache == "directsync" }

// failDirectIO adds an error about a cache that needs O_DIRECT, which the storage of the disk with an index in the spec does not have. asked is the cache.
func (h *host) failDirectIO(i int, asked string) {
	disk, at := &h.spec.Domain.Devices.Disks[i], h.domain.Child("devices", "disks").Index(i)
	lacks := "the storage of volume '" + disk.Name + "' does not support O_DIRECT, which "
	switch {
	case ptr.Deref(disk.Shareable, false):
		h.addError(field.Invalid(at.Child("shareable"), true, lacks+"a shareable disk needs; use a volume of other storage"))
	case disk.Cache != "":
		h.addError(field.Invalid(at.Child("cache"), disk.Cache, lacks+"cache '"+asked+"' needs; use 'writethrough', or leave 'cache' out"))
	default:
		h.addError(field.Invalid(policyPath("disk", "cachePolicy"), asked, lacks+"it needs; use 'Auto', which then is 'WriteThrough'"))
	}
}

// failNativeIO names who asked for io 'native' of the disk with an index in the spec, whose storage lacks the O_DIRECT that QEMU needs for it. Where a cache
// is asked for too, that cache is refused, or its conflict with io 'native'.
func (h *host) failNativeIO(i int) {
	disk := &h.spec.Domain.Devices.Disks[i]
	at, remedy := policyPath("disk", "ioPolicy"), "use 'Threads'"
	if disk.IO != "" {
		at, remedy = h.domain.Child("devices", "disks").Index(i).Child("io"), "use 'threads', or leave 'io' out"
	}
	if !ptr.Deref(disk.Shareable, false) {
		h.addError(field.Invalid(at, "native", "the storage of volume '"+disk.Name+"' does not support O_DIRECT, which it needs; "+remedy))
	}
}

// ioTune returns the limits of hostProfile.diskLimits: of each disk, or of all disks of a group together. KubeVirt has none. libvirt: "iotune".
func (h *host) ioTune() *libvirtxml.DomainDiskIOTune {
	p := h.policy.DiskLimits
	if *p == (v1alpha1.DiskLimits{}) {
		return nil
	}
	out := libvirtxml.DomainDiskIOTune{
		TotalBytesSec: bytesOf(p.TotalBytesPerSecond), ReadBytesSec: bytesOf(p.ReadBytesPerSecond), WriteBytesSec: bytesOf(p.WriteBytesPerSecond),
		TotalIopsSec: toUint64(p.TotalIOPS), ReadIopsSec: toUint64(p.ReadIOPS), WriteIopsSec: toUint64(p.WriteIOPS),
		TotalBytesSecMax: bytesOf(p.BurstTotalBytesPerSecond), ReadBytesSecMax: bytesOf(p.BurstReadBytesPerSecond),
		WriteBytesSecMax: bytesOf(p.BurstWriteBytesPerSecond),
		TotalIopsSecMax:  toUint64(p.BurstTotalIOPS), ReadIopsSecMax: toUint64(p.BurstReadIOPS), WriteIopsSecMax: toUint64(p.BurstWriteIOPS),
		SizeIopsSec: bytesOf(p.OperationSize),
	}
	if out == (libvirtxml.DomainDiskIOTune{}) {
		return nil
	}
	out.GroupName = p.Group
	for _, burst := range []struct {
		rate   uint64
		length *uint64
	}{
		{out.TotalBytesSecMax, &out.TotalBytesSecMaxLength}, {out.ReadBytesSecMax, &out.ReadBytesSecMaxLength}, {out.WriteBytesSecMax, &out.WriteBytesSecMaxLength},
		{out.TotalIopsSecMax, &out.TotalIopsSecMaxLength}, {out.ReadIopsSecMax, &out.ReadIopsSecMaxLength}, {out.WriteIopsSecMax, &out.WriteIopsSecMaxLength},
	} {
		if burst.rate > 0 { // libvirt refuses a length without its burst
			*burst.length = toUint64(p.BurstLengthSeconds)
		}
	}
	return &out
}

func toUint64(n *int64) uint64 {
	if n == nil {
		return 0
	}
	return uint64(*n)
}
