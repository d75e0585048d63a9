package validate

import (
	"fmt"
	"slices"

	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/hardware"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	v1 "kubevirt.io/api/core/v1"
)

// Fields: domain.devices.disks[]: cache, io, errorPolicy, dedicatedIOThread.
// QEMU supports each driver option, and the options can be combined.
// KubeVirt judges each option alone (validateCacheMode, validateIOMode, validateErrorPolicy, and for dedicatedIOThread
// validateBusSupport).

var driverRules = []guestRule{
	{diskDrivers, []Rule{
		{Name: "disks/cache", MendedBy: byPreference},
		{Name: "disks/io", MendedBy: byPreference},
		{Name: "disks/io-cache", KubeVirt: KubeVirtAdmits, MendedBy: byPreference},
		{Name: "disks/error-policy"},
		{Name: "disks/dedicated-iothread", KubeVirt: KubeVirtRefusesVMI, MendedBy: byPreference},
	}},
}

// The values that QEMU's block layer supports.
var (
	caches        = []v1.DriverCache{v1.CacheNone, v1.CacheWriteThrough, v1.CacheWriteBack}
	ioModes       = []v1.DriverIO{v1.IONative, v1.IOThreads}
	errorPolicies = []v1.DiskErrorPolicy{v1.DiskErrorPolicyStop, v1.DiskErrorPolicyIgnore, v1.DiskErrorPolicyReport, v1.DiskErrorPolicyEnospace}
)

func diskDrivers(spec *v1.VirtualMachineInstanceSpec, _ config.Limits, path *field.Path) field.ErrorList {
	return diskDriverForms(spec.Domain.Devices.Disks, disksOf(path))
}

// KubeVirt accepts io 'native' with any cache. QEMU refuses it unless the file is opened with O_DIRECT, which only cache 'none' does.
func diskDriverForms(list []v1.Disk, places places) (errs field.ErrorList) {
	for i := range list {
		disk := &list[i]
		at := func(name string) *field.Path { return places(i, name) }
		if disk.Cache != "" && !slices.Contains(caches, disk.Cache) {
			errs = append(errs, field.NotSupported(at("cache"), disk.Cache, caches).WithOrigin("disks/cache"))
		}
		if disk.IO != "" && !slices.Contains(ioModes, disk.IO) {
			errs = append(errs, field.NotSupported(at("io"), disk.IO, ioModes).WithOrigin("disks/io"))
		}
		if disk.IO == v1.IONative && (disk.Cache == v1.CacheWriteBack || disk.Cache == v1.CacheWriteThrough) {
			errs = append(errs, field.Invalid(at("io"), disk.IO,
				fmt.Sprintf("io 'native' bypasses the host page cache and cannot be combined with cache '%s': use cache 'none', or io 'threads'",
					disk.Cache)).WithOrigin("disks/io-cache"))
		}
		if policy := disk.ErrorPolicy; policy != nil && !slices.Contains(errorPolicies, *policy) {
			errs = append(errs, field.NotSupported(at("errorPolicy"), *policy, errorPolicies).WithOrigin("disks/error-policy"))
		}
		if bus, target := bus(disk); ptr.Deref(disk.DedicatedIOThread, false) && target != "" && bus != "" && !hardware.Bus(bus).IOThreads {
			errs = append(errs, field.Forbidden(at("dedicatedIOThread"),
				fmt.Sprintf("bus '%s' has no IO threads: use 'virtio'", bus)).WithOrigin("disks/dedicated-iothread"))
		}
	}
	return errs
}
