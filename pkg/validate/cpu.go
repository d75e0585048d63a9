package validate

import (
	"fmt"
	"regexp"

	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/internal/vm"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// Fields: domain.cpu.
// With dedicatedCpuPlacement the number of CPUs is given, whole and consistent. Features that build on dedicated CPUs (an isolated emulator
// thread, the host's NUMA layout, realtime) require them.

var cpuRules = []guestRule{
	{sockets, []Rule{
		{Name: "cpu/sockets", KubeVirt: KubeVirtRefusesSome, MendedBy: byInstancetype | byPreference},
	}},
	{vcpuCount, []Rule{
		{Name: "cpu/most", KubeVirt: KubeVirtAdmits, MendedBy: byInstancetype},
	}},
	{cpuFeatures, []Rule{
		{Name: "cpu/feature-name", KubeVirt: KubeVirtAdmits, MendedBy: byInstancetype | byPreference},
		{Name: "cpu/feature-twice", KubeVirt: KubeVirtAdmits, MendedBy: byInstancetype | byPreference},
		{Name: "cpu/feature-policy", MendedBy: byInstancetype | byPreference},
	}},
	{cpuModel, []Rule{
		{Name: "cpu/model-arm64", KubeVirt: KubeVirtRefusesVMI, MendedBy: byInstancetype | byPreference},
	}},
	{dedicatedCPUs, []Rule{
		{Name: "cpu/isolated-emulator", MendedBy: byCompletion | byInstancetype},
		{Name: "cpu/dedicated-count", MendedBy: byCompletion | byInstancetype},
		{Name: "cpu/dedicated-equal", MendedBy: byInstancetype},
		{Name: "cpu/dedicated-one-count", MendedBy: byInstancetype},
		{Name: "cpu/dedicated-threads", MendedBy: byInstancetype},
		{Name: "cpu/dedicated-threads-arm64", MendedBy: byInstancetype},
	}},
	{numa, []Rule{
		{Name: "cpu/numa-dedicated", MendedBy: byCompletion | byInstancetype},
		{Name: "cpu/numa-hugepages", MendedBy: byCompletion | byInstancetype},
	}},
	{realtime, []Rule{
		{Name: "cpu/realtime-dedicated", MendedBy: byCompletion | byInstancetype},
		{Name: "cpu/realtime-numa", MendedBy: byCompletion | byInstancetype},
		{Name: "cpu/realtime-mask", KubeVirt: KubeVirtAdmits, MendedBy: byInstancetype},
	}},
}

// MaxThreads is the limit of threads per core with dedicatedCpuPlacement: a vCPU is pinned to a hyperthread, and x86 cores have two.
const MaxThreads = 2

// sockets is validateCPUHotplug: maxSockets is the number of sockets up to which CPUs can be hotplugged, and 0 means that it is not
// set.
func sockets(spec *v1.VirtualMachineInstanceSpec, _ config.Limits, path *field.Path) field.ErrorList {
	cpu := spec.Domain.CPU
	if cpu == nil || cpu.MaxSockets == 0 || cpu.Sockets <= cpu.MaxSockets {
		return nil
	}
	return field.ErrorList{field.Invalid(path.Child("domain", "cpu", "sockets"), cpu.Sockets,
		fmt.Sprintf("must not be greater than maxSockets (%d)", cpu.MaxSockets)).WithOrigin("cpu/sockets")}
}

// maxVCPUs is the most that QEMU emulates on any machine (q35 of version 9 and later). Each is an element of the domain.
const maxVCPUs = 4096

// vcpuCount has no counterpart in KubeVirt, which accepts any product. Trap: three factors of 32 bits overflow 64, so it stops at the
// first product above the limit. Where the VMI has no count, sockets are made from the pod's request or limit, and the mistake is there.
func vcpuCount(spec *v1.VirtualMachineInstanceSpec, _ config.Limits, path *field.Path) field.ErrorList {
	cpu := spec.Domain.CPU
	if cpu == nil {
		return nil
	}
	most := uint64(maxVCPUs)
	if spec.Architecture == s390x {
		most, _ = vm.MaxVCPUs(spec.Architecture)
	}
	count := uint64(1)
	for _, factor := range []struct {
		name  string
		value uint32
	}{{"cores", cpu.Cores}, {"threads", cpu.Threads}, {"sockets", cpu.Sockets}} {
		if count *= uint64(max(factor.value, 1)); count > most {
			if at, given := mostOfPod(spec, most, path); factor.name == "sockets" && at != nil {
				return field.ErrorList{field.Invalid(at, given.String(), fmt.Sprintf("makes more than %d vCPUs", most)).WithOrigin("cpu/most")}
			}
			return field.ErrorList{field.Invalid(path.Child("domain", "cpu", factor.name), factor.value,
				fmt.Sprintf("the product of cores, threads and sockets must be at most %d", most)).WithOrigin("cpu/most")}
		}
	}
	if count/uint64(max(cpu.Sockets, 1))*uint64(max(cpu.MaxSockets, 1)) > most {
		return field.ErrorList{field.Invalid(path.Child("domain", "cpu", "maxSockets"), cpu.MaxSockets,
			fmt.Sprintf("the product of cores, threads and maxSockets must be at most %d", most)).WithOrigin("cpu/most")}
	}
	return nil
}

// mostOfPod returns the pod's request or limit of more CPUs than a guest may have, with its path; nil if both are within the bound.
func mostOfPod(spec *v1.VirtualMachineInstanceSpec, most uint64, path *field.Path) (*field.Path, resource.Quantity) {
	allowed, requested := spec.Domain.Resources.Limits[corev1.ResourceCPU], spec.Domain.Resources.Requests[corev1.ResourceCPU]
	switch {
	case allowed.CmpInt64(int64(most)) > 0:
		return limitPath(path, corev1.ResourceCPU), allowed
	case requested.CmpInt64(int64(most)) > 0:
		return requestPath(path, corev1.ResourceCPU), requested
	}
	return nil, allowed
}

// cpuFeatures is validateCPUFeaturePolicies. KubeVirt accepts a feature without a name and a feature given twice; libvirt refuses
// both.
func cpuFeatures(spec *v1.VirtualMachineInstanceSpec, _ config.Limits, path *field.Path) (errs field.ErrorList) {
	if spec.Domain.CPU == nil {
		return nil
	}
	seen := map[string]bool{}
	for i, feature := range spec.Domain.CPU.Features {
		at := path.Child("domain", "cpu", "features").Index(i)
		switch {
		case feature.Name == "":
			errs = append(errs, field.Required(at.Child("name"), "name the CPU feature").WithOrigin("cpu/feature-name"))
		case seen[feature.Name]:
			errs = append(errs, field.Duplicate(at.Child("name"), feature.Name).WithOrigin("cpu/feature-twice"))
		}
		seen[feature.Name] = true
		if feature.Policy != "" {
			errs = append(errs, supported(at.Child("policy"), feature.Policy, "force", "require", "optional", "disable", "forbid").WithOrigin("cpu/feature-policy")...)
		}
	}
	return errs
}

// cpuModel refuses other models on arm64: under KVM, QEMU's virt machine supports only the host's CPU.
// In KubeVirt it is validateCPUModel of the arm64 rules.
func cpuModel(spec *v1.VirtualMachineInstanceSpec, _ config.Limits, path *field.Path) field.ErrorList {
	if spec.Architecture != arm64 || spec.Domain.CPU == nil || spec.Domain.CPU.Model == "" {
		return nil
	}
	return supported(path.Child("domain", "cpu", "model"), spec.Domain.CPU.Model, v1.CPUModeHostPassthrough).WithOrigin("cpu/model-arm64")
}

// dedicated reports whether each vCPU has a host CPU of its own (dedicatedCpuPlacement).
func dedicated(spec *v1.VirtualMachineInstanceSpec) bool {
	return spec.Domain.CPU != nil && spec.Domain.CPU.DedicatedCPUPlacement
}

// dedicatedCPUs requires one number of CPUs: topology, request and limit may each give it, and must agree.
// In KubeVirt it is validateCPUIsolatorThread and validateCpuPinning with the functions that this one calls (validateThreadCountOnArchitecture,
// validateRequestEqualsLimitOnDedicatedCPUPlacement and others). Trap: a topology without any count is no number of CPUs, but one
// count alone is, because the others are then 1.
func dedicatedCPUs(spec *v1.VirtualMachineInstanceSpec, _ config.Limits, path *field.Path) (errs field.ErrorList) {
	cpu := spec.Domain.CPU
	if cpu == nil {
		return nil
	}
	if !cpu.DedicatedCPUPlacement {
		if cpu.IsolateEmulatorThread {
			errs = append(errs, field.Invalid(path.Child("domain", "cpu", "isolateEmulatorThread"), true,
				"needs dedicatedCpuPlacement to be true").WithOrigin("cpu/isolated-emulator"))
		}
		return errs
	}
	request, limit := spec.Domain.Resources.Requests[corev1.ResourceCPU], spec.Domain.Resources.Limits[corev1.ResourceCPU]
	at := path.Child("domain", "cpu", "dedicatedCpuPlacement")
	invalid := func(why string, args ...any) *field.Error {
		errs = append(errs, field.Invalid(at, true, fmt.Sprintf(why, args...)))
		return errs[len(errs)-1]
	}
	given := vm.VCPUs(cpu)
	switch {
	case request.IsZero() && limit.IsZero() && given == 0:
		invalid("needs a number of CPUs: set cores, or resources.requests.cpu").WithOrigin("cpu/dedicated-count")
	case request.Sign() > 0 && limit.Sign() > 0 && request.Value() != limit.Value(): // rule resources/dedicated-whole refuses fractions
		invalid("needs equal CPUs: resources.requests.cpu is '%s', resources.limits.cpu is '%s'", request.String(), limit.String()).WithOrigin("cpu/dedicated-equal")
	}
	if given > 0 && request.Sign()+limit.Sign() > 0 && request.Value() != given && limit.Value() != given {
		invalid("needs one number of CPUs: cores x sockets x threads is %d, resources.requests.cpu or resources.limits.cpu differs; remove one of them",
			given).WithOrigin("cpu/dedicated-one-count")
	}
	if cpu.Threads > MaxThreads {
		invalid("allows at most %d threads per core, found %d: lower cpu.threads", MaxThreads, cpu.Threads).WithOrigin("cpu/dedicated-threads")
	}
	if cpu.Threads > 1 && spec.Architecture == arm64 {
		errs = append(errs, field.Invalid(path.Child("architecture"), arm64,
			"has one thread per core: set cpu.threads to 1, or remove cpu.dedicatedCpuPlacement").WithOrigin("cpu/dedicated-threads-arm64"))
	}
	return errs
}

// numa requires what mirroring the host's NUMA layout needs: pinned CPUs, and huge pages, which are allocated on one NUMA node.
// In KubeVirt it is validateNUMA.
func numa(spec *v1.VirtualMachineInstanceSpec, _ config.Limits, path *field.Path) (errs field.ErrorList) {
	if !vm.MirrorsNUMA(spec.Domain.CPU) {
		return nil
	}
	at := path.Child("domain", "cpu", "numa", "guestMappingPassthrough")
	if !dedicated(spec) {
		errs = append(errs, field.Invalid(at, "", "needs dedicatedCpuPlacement to be true").WithOrigin("cpu/numa-dedicated"))
	}
	if spec.Domain.Memory == nil || spec.Domain.Memory.Hugepages == nil {
		errs = append(errs, field.Invalid(at, "", "needs memory.hugepages").WithOrigin("cpu/numa-hugepages"))
	}
	return errs
}

// cpuMask is libvirt's form of a set of CPUs.
var cpuMask = regexp.MustCompile(`^\^?\d+(-\d+)?(,\^?\d+(-\d+)?)*$`)

// realtime is validateCPURealtime and validateMemoryRealtime: vCPU threads with a real-time scheduler need host CPUs and memory that
// nothing else uses. KubeVirt accepts any mask; libvirt reads it.
func realtime(spec *v1.VirtualMachineInstanceSpec, _ config.Limits, path *field.Path) (errs field.ErrorList) {
	cpu := spec.Domain.CPU
	if cpu == nil || cpu.Realtime == nil {
		return nil
	}
	path = path.Child("domain", "cpu")
	if !cpu.DedicatedCPUPlacement {
		errs = append(errs, field.Required(path.Child("dedicatedCpuPlacement"), "must be true: realtime needs dedicated CPUs").WithOrigin("cpu/realtime-dedicated"))
	}
	if !vm.MirrorsNUMA(cpu) {
		at := path.Child("numa")
		if cpu.NUMA != nil {
			at = at.Child("guestMappingPassthrough")
		}
		errs = append(errs, field.Required(at, "realtime needs numa.guestMappingPassthrough").WithOrigin("cpu/realtime-numa"))
	}
	if cpu.Realtime.Mask != "" && !cpuMask.MatchString(cpu.Realtime.Mask) {
		errs = append(errs, field.Invalid(path.Child("realtime", "mask"), cpu.Realtime.Mask,
			"must be a list of vCPUs such as '0-3,^1'").WithOrigin("cpu/realtime-mask"))
	}
	return errs
}
