package validate

import (
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
	"kubevirt.io/api/instancetype/v1beta1"
)

// Instancetype judges a size; path is its spec.
func Instancetype(spec *v1beta1.VirtualMachineInstancetypeSpec, path *field.Path) (errs field.ErrorList) {
	if spec.CPU.Guest < 1 {
		errs = append(errs, field.Invalid(path.Child("cpu", "guest"), spec.CPU.Guest, "must be at least 1").WithOrigin("instancetype/cpus"))
	}
	memory, path := spec.Memory, path.Child("memory")
	if memory.Guest.Sign() <= 0 {
		errs = append(errs, field.Invalid(path.Child("guest"), memory.Guest.String(), "must be greater than 0").WithOrigin("instancetype/memory"))
	}
	if memory.OvercommitPercent < 0 || memory.OvercommitPercent > 100 {
		errs = append(errs, field.Invalid(path.Child("overcommitPercent"), memory.OvercommitPercent, "must be between 0 and 100").WithOrigin("instancetype/overcommit"))
	}
	if memory.OvercommitPercent != 0 && memory.Hugepages != nil {
		errs = append(errs, field.Forbidden(path.Child("overcommitPercent"), "huge pages cannot be overcommitted: remove one of them").WithOrigin("instancetype/overcommit-hugepages"))
	}
	return errs
}

var topologies = []v1beta1.PreferredCPUTopology{
	v1beta1.Any, v1beta1.Cores, v1beta1.Sockets, v1beta1.Spread, v1beta1.Threads,
	v1beta1.DeprecatedPreferAny, v1beta1.DeprecatedPreferCores, v1beta1.DeprecatedPreferSockets, v1beta1.DeprecatedPreferSpread, v1beta1.DeprecatedPreferThreads,
}

// threadRatio is how many threads a core has when vCPUs are spread over them: no x86 core has more than two.
const threadRatio = 2

// Preference judges a preference; path is its spec. A ratio of 0 would divide the vCPUs by nothing.
func Preference(spec *v1beta1.VirtualMachinePreferenceSpec, path *field.Path) (errs field.ErrorList) {
	if spec.CPU == nil {
		return nil
	}
	path = path.Child("cpu")
	if topology := spec.CPU.PreferredCPUTopology; topology != nil {
		errs = append(errs, supported(path.Child("preferredCPUTopology"), *topology, topologies...).WithOrigin("preference/topology")...)
	}
	spread := spec.CPU.SpreadOptions
	if spread == nil {
		return errs
	}
	path = path.Child("spreadOptions")
	if spread.Ratio != nil && *spread.Ratio == 0 {
		errs = append(errs, field.Invalid(path.Child("ratio"), 0, "must be at least 1").WithOrigin("preference/spread-zero"))
	}
	if spread.Across == nil {
		return errs
	}
	errs = append(errs, supported(path.Child("across"), *spread.Across,
		v1beta1.SpreadAcrossSocketsCores, v1beta1.SpreadAcrossCoresThreads, v1beta1.SpreadAcrossSocketsCoresThreads).WithOrigin("preference/spread-across")...)
	if *spread.Across == v1beta1.SpreadAcrossCoresThreads && spread.Ratio != nil && *spread.Ratio != threadRatio && *spread.Ratio != 0 {
		errs = append(errs, field.Invalid(path.Child("ratio"), *spread.Ratio, "must be 2 across 'CoresThreads': a core has at most two threads").WithOrigin("preference/spread-threads"))
	}
	return errs
}

// Preset judges a preset; path is its spec. It is half a guest: what can only be judged whole is left to the guest.
func Preset(spec *v1.VirtualMachineInstancePresetSpec, path *field.Path) (errs field.ErrorList) {
	path = path.Child("domain")
	if spec.Domain == nil {
		return field.ErrorList{field.Required(path, "say what the preset fills").WithOrigin("preset/domain")}
	}
	list, at := spec.Domain.Devices.Disks, path.Child("devices", "disks")
	for _, judge := range []func([]v1.Disk, *field.Path) field.ErrorList{diskForms, diskBusForms, diskDriverForms, blockSizeForms} {
		errs = append(errs, judge(list, at)...)
	}
	errs = append(errs, oneBootloader(spec.Domain.Firmware, path.Child("firmware", "bootloader"))...)
	return append(errs, externalKernel(spec.Domain.Firmware, path.Child("firmware", "kernelBoot"))...)
}
