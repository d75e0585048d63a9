package backend

import (
	"cmp"

	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"
)

// What the administrator says of disks: disk/driver (cache, io, discard, detect_zeroes, error_policy, rerror_policy, metadata_cache) and
// disk/iotune. Host profile: disk, diskLimits. The user's cache, io and errorPolicy win.

func (h *host) tune(out *libvirtxml.DomainDisk, spec v1.Disk, volume Volume, at *field.Path) {
	p, driver := h.policy.Disk, out.Driver
	driver.Cache = h.cache(spec, volume, at)
	driver.IO = cmp.Or(string(spec.IO), set(p.IOPolicy))
	// Native asynchronous IO pays on block devices; on sparse files it blocks when blocks must be allocated.
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
	if p.MetadataCacheBytes != nil && volume.Format == "qcow2" {
		size := libvirtxml.DomainDiskMetadataCacheSize{Unit: "bytes", Value: int(*p.MetadataCacheBytes)}
		driver.MetadataCache = &libvirtxml.DomainDiskMetadataCache{MaxSize: &size}
	}
	// Commands of a LUN go past QEMU's throttle to the device.
	if spec.LUN == nil {
		out.IOTune = h.ioTune()
	}
}

// set is a policy that says something: 'auto' leaves the choice to Kiln.
func set(policy string) string {
	if policy == "auto" {
		return ""
	}
	return policy
}

// cache: the page cache of the host is passed by wherever the file system can, so that a write is on the disk when the
// guest is told so and memory is not used twice.
func (h *host) cache(disk v1.Disk, volume Volume, at *field.Path) string {
	shared, policy := isTrue(disk.Shareable), set(h.policy.Disk.CachePolicy)
	asked := cmp.Or(string(disk.Cache), policy)
	switch {
	case volume.NoDirectIO && (asked == "none" || asked == "directsync" || shared):
		h.fail(field.Invalid(at.Child("cache"), disk.Cache, "the file system of volume '"+disk.Name+"' cannot bypass the page cache (O_DIRECT), as cache '"+
			cmp.Or(asked, "none")+"' does; use 'writethrough', or leave it out here and in hostProfile.disk.cachePolicy"))
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

// ioTune are the limits of each disk, or of all disks of a group together.
func (h *host) ioTune() *libvirtxml.DomainDiskIOTune {
	p := h.policy.DiskLimits
	out := libvirtxml.DomainDiskIOTune{
		TotalBytesSec: wide(p.TotalBytesPerSec), ReadBytesSec: wide(p.ReadBytesPerSec), WriteBytesSec: wide(p.WriteBytesPerSec),
		TotalIopsSec: wide(p.TotalIopsPerSec), ReadIopsSec: wide(p.ReadIopsPerSec), WriteIopsSec: wide(p.WriteIopsPerSec),
		TotalBytesSecMax: wide(p.BurstTotalBytesPerSec), ReadBytesSecMax: wide(p.BurstReadBytesPerSec), WriteBytesSecMax: wide(p.BurstWriteBytesPerSec),
		TotalIopsSecMax: wide(p.BurstTotalIopsPerSec), ReadIopsSecMax: wide(p.BurstReadIopsPerSec), WriteIopsSecMax: wide(p.BurstWriteIopsPerSec),
		SizeIopsSec: wide(p.SizeIopsBytes),
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
		if burst.rate > 0 { // libvirt takes a length with its burst only
			*burst.length = wide(p.BurstLengthSec)
		}
	}
	return &out
}

func wide(n *int64) uint64 {
	if n == nil {
		return 0
	}
	return uint64(*n)
}
