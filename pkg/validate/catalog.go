package validate

import (
	"github.com/kilnvm/kiln/pkg/internal/vm"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
	"kubevirt.io/api/instancetype/v1beta1"
)

// Fields: the specs of instancetypes, preferences and presets.
// An instancetype has at least one CPU and some memory. A preference spreads vCPUs in a way that Kiln knows. A preset is judged by the rules
// that need no other field; the others judge the VMI that it is merged into.
// KubeVirt has the rules in ValidateInstanceTypeSpec, ValidatePreferenceSpec and ValidateVMIPresetSpec. It accepts an instancetype without vCPUs or memory,
// and a spread ratio of 0, by which it then divides.

type (
	instancetypeRule = judgement[func(*v1beta1.VirtualMachineInstancetypeSpec, *field.Path) field.ErrorList]
	preferenceRule   = judgement[func(*v1beta1.VirtualMachinePreferenceSpec, *field.Path) field.ErrorList]
	presetRule       = judgement[func(*v1.VirtualMachineInstancePresetSpec, *field.Path) field.ErrorList]
)

var instancetypeRules = []instancetypeRule{
	{instancetypeCPUs, []Rule{
		{Name: "instancetype/cpus", KubeVirt: KubeVirtAdmits},
	}},
	{instancetypeMemory, []Rule{
		{Name: "instancetype/memory", KubeVirt: KubeVirtAdmits},
		{Name: "instancetype/memory-unit", KubeVirt: KubeVirtAdmits},
		{Name: "instancetype/max-guest", KubeVirt: KubeVirtAdmits},
		{Name: "instancetype/page-size", KubeVirt: KubeVirtAdmits},
		{Name: "instancetype/overcommit"},
		{Name: "instancetype/overcommit-hugepages"},
	}},
	{instancetypeDevices, []Rule{
		{Name: "instancetype/device-name", KubeVirt: KubeVirtAdmits},
		{Name: "instancetype/request-form", KubeVirt: KubeVirtAdmits},
	}},
	{instancetypeMetadata, []Rule{
		{Name: "instancetype/annotations", KubeVirt: KubeVirtAdmits},
		{Name: "instancetype/node-selector", KubeVirt: KubeVirtAdmits},
	}},
}

var preferenceRules = []preferenceRule{
	{preferredAnnotations, []Rule{
		{Name: "preference/annotations", KubeVirt: KubeVirtAdmits},
	}},
	{preferredGrace, []Rule{
		{Name: "preference/grace-period", KubeVirt: KubeVirtAdmits},
	}},
	{requiredMemory, []Rule{
		{Name: "preference/memory", KubeVirt: KubeVirtAdmits},
	}},
	{preferredTopology, []Rule{
		{Name: "preference/topology"},
	}},
	{spreadOptions, []Rule{
		{Name: "preference/spread-zero", KubeVirt: KubeVirtAdmits},
		{Name: "preference/spread-across"},
		{Name: "preference/spread-threads"},
	}},
}

// presetRules reuse the rules of disks and firmware, which keep their names.
var presetRules = []presetRule{
	{presetDomain, []Rule{
		{Name: "preset/domain"},
	}},
	{presetDisks, nil},
	{presetFirmware, nil},
}

// Instancetype judges the spec of an instancetype of either scope. path is the path of the spec.
func Instancetype(spec *v1beta1.VirtualMachineInstancetypeSpec, path *field.Path) (errs field.ErrorList) {
	for _, rule := range instancetypeRules {
		errs = append(errs, rule.judge(spec, path)...)
	}
	return errs
}

// Preference judges the spec of a preference of either scope. path is the path of the spec.
func Preference(spec *v1beta1.VirtualMachinePreferenceSpec, path *field.Path) (errs field.ErrorList) {
	for _, rule := range preferenceRules {
		errs = append(errs, rule.judge(spec, path)...)
	}
	return errs
}

// Preset judges the spec of a VirtualMachineInstancePreset. path is the path of the spec.
func Preset(spec *v1.VirtualMachineInstancePresetSpec, path *field.Path) (errs field.ErrorList) {
	for _, rule := range presetRules {
		errs = append(errs, rule.judge(spec, path)...)
	}
	return errs
}

// instancetypeCPUs reports 0 vCPUs to the author of the instancetype, and not to the owner of each VM that uses it.
func instancetypeCPUs(spec *v1beta1.VirtualMachineInstancetypeSpec, path *field.Path) field.ErrorList {
	if spec.CPU.Guest >= 1 {
		return nil
	}
	return field.ErrorList{field.Invalid(path.Child("cpu", "guest"), spec.CPU.Guest, "must be at least 1").WithOrigin("instancetype/cpus")}
}

// instancetypeMemory is validateMemoryOvercommitPercentSetting and validateMemoryOvercommitPercentNoHugepages of KubeVirt, and
// requires an amount of memory that a guest can have. The kind's schema bounds overcommitPercent too, so that the bound holds without the webhook.
func instancetypeMemory(spec *v1beta1.VirtualMachineInstancetypeSpec, path *field.Path) (errs field.ErrorList) {
	memory, path := spec.Memory, path.Child("memory")
	if absent(memory.Guest) {
		errs = append(errs, field.Required(path.Child("guest"), "give the memory, such as '2Gi'").WithOrigin("instancetype/memory"))
	} else if !vm.IsMemory(memory.Guest) {
		errs = append(errs, field.Invalid(path.Child("guest"), memory.Guest.String(), vm.NoMemory).WithOrigin("instancetype/memory"))
	}
	for _, amount := range []struct {
		name  string
		given *resource.Quantity
	}{{"guest", &memory.Guest}, {"maxGuest", memory.MaxGuest}} {
		if amount.given != nil && unitMissing(*amount.given) {
			errs = append(errs, field.Invalid(path.Child(amount.name), amount.given.String(), lessThanMinimum(*amount.given)).WithOrigin("instancetype/memory-unit"))
		}
	}
	if memory.MaxGuest != nil && !vm.IsMemory(*memory.MaxGuest) {
		errs = append(errs, field.Invalid(path.Child("maxGuest"), memory.MaxGuest.String(), vm.NoMemory).WithOrigin("instancetype/max-guest"))
	}
	if memory.Hugepages != nil { // the architecture is the VM's
		errs = append(errs, pageSize(memory.Hugepages.PageSize, "", path.Child("hugepages", "pageSize")).WithOrigin("instancetype/page-size")...)
	}
	if memory.OvercommitPercent < 0 || memory.OvercommitPercent > 100 {
		errs = append(errs, field.Invalid(path.Child("overcommitPercent"), memory.OvercommitPercent,
			"must be between 0 and 100").WithOrigin("instancetype/overcommit"))
	}
	if memory.OvercommitPercent != 0 && memory.Hugepages != nil {
		errs = append(errs, field.Forbidden(path.Child("overcommitPercent"),
			"huge pages cannot be overcommitted: remove one of them").WithOrigin("instancetype/overcommit-hugepages"))
	}
	return errs
}

// instancetypeDevices judges names that no resource of a device plugin and no request of a claim can have. KubeVirt accepts them.
func instancetypeDevices(spec *v1beta1.VirtualMachineInstancetypeSpec, path *field.Path) (errs field.ErrorList) {
	judge := func(at *field.Path, deviceName string, claim *v1.ClaimRequest) {
		if deviceName != "" {
			errs = append(errs, deviceNamed(at, deviceName).WithOrigin("instancetype/device-name")...)
		}
		if claim != nil && claim.RequestName != "" {
			errs = append(errs, requestNamed(at, claim.RequestName).WithOrigin("instancetype/request-form")...)
		}
	}
	for i, d := range spec.GPUs {
		judge(path.Child("gpus").Index(i), d.DeviceName, d.ClaimRequest)
	}
	for i, d := range spec.HostDevices {
		judge(path.Child("hostDevices").Index(i), d.DeviceName, d.ClaimRequest)
	}
	return errs
}

// instancetypeMetadata judges what every VMI of the instancetype gets, and no VMI or pod can have. KubeVirt accepts it.
func instancetypeMetadata(spec *v1beta1.VirtualMachineInstancetypeSpec, path *field.Path) field.ErrorList {
	errs := annotations(spec.Annotations, path.Child("annotations")).WithOrigin("instancetype/annotations")
	return append(errs, labels(spec.NodeSelector, path.Child("nodeSelector")).WithOrigin("instancetype/node-selector")...)
}

func preferredAnnotations(spec *v1beta1.VirtualMachinePreferenceSpec, path *field.Path) field.ErrorList {
	return annotations(spec.Annotations, path.Child("annotations")).WithOrigin("preference/annotations")
}

// preferredGrace judges what a VMI without a grace period of its own gets.
func preferredGrace(spec *v1beta1.VirtualMachinePreferenceSpec, path *field.Path) field.ErrorList {
	return gracePeriod(spec.PreferredTerminationGracePeriodSeconds, path.Child("preferredTerminationGracePeriodSeconds")).WithOrigin("preference/grace-period")
}

// requiredMemory judges an amount that a preference requires, which no instancetype has, or each has: 0 requires nothing.
func requiredMemory(spec *v1beta1.VirtualMachinePreferenceSpec, path *field.Path) field.ErrorList {
	if spec.Requirements == nil || spec.Requirements.Memory == nil || spec.Requirements.Memory.Guest.IsZero() {
		return nil
	}
	required, detail := spec.Requirements.Memory.Guest, vm.NoMemory
	if unitMissing(required) {
		detail = lessThanMinimum(required)
	} else if vm.IsMemory(required) {
		return nil
	}
	return field.ErrorList{field.Invalid(path.Child("requirements", "memory", "guest"), required.String(), detail).WithOrigin("preference/memory")}
}

var topologies = []v1beta1.PreferredCPUTopology{
	v1beta1.Any, v1beta1.Cores, v1beta1.Sockets, v1beta1.Spread, v1beta1.Threads,
	v1beta1.DeprecatedPreferAny, v1beta1.DeprecatedPreferCores, v1beta1.DeprecatedPreferSockets, v1beta1.DeprecatedPreferSpread, v1beta1.DeprecatedPreferThreads,
}

// threadRatio is the number of threads per core when vCPUs are spread across threads: x86 cores have at most two.
const threadRatio = 2

// preferredTopology is validatePreferredCPUTopology. The names that begin with 'prefer' are the older spelling of the same topologies;
// PreferenceWarnings reports them.
func preferredTopology(spec *v1beta1.VirtualMachinePreferenceSpec, path *field.Path) field.ErrorList {
	if spec.CPU == nil || spec.CPU.PreferredCPUTopology == nil {
		return nil
	}
	return supported(path.Child("cpu", "preferredCPUTopology"), *spec.CPU.PreferredCPUTopology, topologies...).WithOrigin("preference/topology")
}

// spreadOptions refuses a ratio of 0, by which the vCPUs would be divided.
// In KubeVirt it is validateSpreadOptions otherwise.
func spreadOptions(spec *v1beta1.VirtualMachinePreferenceSpec, path *field.Path) (errs field.ErrorList) {
	if spec.CPU == nil || spec.CPU.SpreadOptions == nil {
		return nil
	}
	spread, path := spec.CPU.SpreadOptions, path.Child("cpu", "spreadOptions")
	if spread.Ratio != nil && *spread.Ratio == 0 {
		errs = append(errs, field.Invalid(path.Child("ratio"), 0, "must be at least 1").WithOrigin("preference/spread-zero"))
	}
	if spread.Across == nil {
		return errs
	}
	errs = append(errs, supported(path.Child("across"), *spread.Across,
		v1beta1.SpreadAcrossSocketsCores, v1beta1.SpreadAcrossCoresThreads, v1beta1.SpreadAcrossSocketsCoresThreads).WithOrigin("preference/spread-across")...)
	if *spread.Across == v1beta1.SpreadAcrossCoresThreads && spread.Ratio != nil && *spread.Ratio != threadRatio && *spread.Ratio != 0 {
		errs = append(errs, field.Invalid(path.Child("ratio"), *spread.Ratio,
			"must be 2 when across is 'CoresThreads': a core has at most two threads").WithOrigin("preference/spread-threads"))
	}
	return errs
}

// presetDomain requires what the schema does not: without spec.domain a preset has nothing to give.
func presetDomain(spec *v1.VirtualMachineInstancePresetSpec, path *field.Path) field.ErrorList {
	if spec.Domain != nil {
		return nil
	}
	return field.ErrorList{field.Required(path.Child("domain"), "give the fields that the preset sets").WithOrigin("preset/domain")}
}

// presetDisks judges disks although a preset never adds any to a VMI, as KubeVirt does. Only rules that need no volume apply: a preset
// has none.
func presetDisks(spec *v1.VirtualMachineInstancePresetSpec, path *field.Path) (errs field.ErrorList) {
	if spec.Domain == nil {
		return nil
	}
	list, at := spec.Domain.Devices.Disks, disksOf(path)
	for _, judge := range []func([]v1.Disk, places) field.ErrorList{diskForms, diskBusForms, diskDriverForms, blockSizeForms} {
		errs = append(errs, judge(list, at)...)
	}
	return errs
}

// presetFirmware is the part of validateFirmware that needs no architecture: a preset matches VMIs of any.
func presetFirmware(spec *v1.VirtualMachineInstancePresetSpec, path *field.Path) field.ErrorList {
	if spec.Domain == nil {
		return nil
	}
	path = path.Child("domain", "firmware")
	return append(oneBootloader(spec.Domain.Firmware, path.Child("bootloader")), externalKernel(spec.Domain.Firmware, path.Child("kernelBoot"))...)
}
