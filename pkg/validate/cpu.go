package validate

import (
	"github.com/kilnvm/kiln/pkg/config"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// Fields: domain.cpu, domain.resources.*.cpu. Feature policies are libvirt's.

var featurePolicies = []string{"disable", "forbid", "force", "optional", "require"}

func topology(guest *v1.VirtualMachineInstanceSpec, _ config.Limits, spec *field.Path) (errs field.ErrorList) {
	cpu := guest.Domain.CPU
	if cpu == nil {
		return nil
	}
	at := spec.Child("domain", "cpu")
	if cpu.MaxSockets != 0 && cpu.Sockets > cpu.MaxSockets {
		errs = append(errs, field.Invalid(at.Child("sockets"), cpu.Sockets, "must not be greater than `maxSockets`"))
	}
	for i, feature := range cpu.Features {
		if feature.Policy != "" {
			errs = append(errs, supported(feature.Policy, featurePolicies, at.Child("features").Index(i).Child("policy"))...)
		}
	}
	if guest.Architecture == "arm64" {
		errs = append(errs, supported(cpu.Model, []string{v1.CPUModeHostPassthrough}, at.Child("model"))...)
	}
	return errs
}

// dedicatedCPUs: a CPU of the host for each of the guest's needs whole numbers that agree.
func dedicatedCPUs(guest *v1.VirtualMachineInstanceSpec, _ config.Limits, spec *field.Path) (errs field.ErrorList) {
	cpu := guest.Domain.CPU
	if cpu == nil {
		return nil
	}
	at := spec.Child("domain", "cpu")
	passthrough := cpu.NUMA != nil && cpu.NUMA.GuestMappingPassthrough != nil
	hugepages := guest.Domain.Memory != nil && guest.Domain.Memory.Hugepages != nil
	dedicated := cpu.DedicatedCPUPlacement
	if cpu.IsolateEmulatorThread && !dedicated {
		errs = append(errs, field.Forbidden(at.Child("isolateEmulatorThread"), "may not be set without `dedicatedCpuPlacement`"))
	}
	if passthrough && !dedicated {
		errs = append(errs, field.Forbidden(at.Child("numa", "guestMappingPassthrough"), "may not be set without `dedicatedCpuPlacement`"))
	}
	if passthrough && !hugepages {
		errs = append(errs, field.Forbidden(at.Child("numa", "guestMappingPassthrough"), "may not be set without `memory.hugepages`"))
	}
	if cpu.Realtime != nil && !dedicated {
		errs = append(errs, field.Required(at.Child("dedicatedCpuPlacement"), "`realtime` needs it"))
	}
	if cpu.Realtime != nil && !passthrough {
		errs = append(errs, field.Required(at.Child("numa", "guestMappingPassthrough"), "`realtime` needs it"))
	}
	if !dedicated {
		return errs
	}
	vcpus := *resource.NewQuantity(int64(cpu.Cores)*int64(cpu.Sockets)*int64(cpu.Threads), resource.DecimalSI)
	resources := guest.Domain.Resources
	for _, pod := range []struct {
		name string
		list corev1.ResourceList
	}{{"limits", resources.Limits}, {"requests", resources.Requests}} {
		if given, found := pod.list[corev1.ResourceCPU]; found && given.Cmp(vcpus) != 0 {
			errs = append(errs, field.Invalid(spec.Child("domain", "resources", pod.name, "cpu"), given.String(), "must be the number of vCPUs with `dedicatedCpuPlacement`"))
		}
	}
	return errs
}

func podCPU(guest *v1.VirtualMachineInstanceSpec, _ config.Limits, spec *field.Path) field.ErrorList {
	return podResource(guest, corev1.ResourceCPU, spec)
}

// podResource: what the pod requests and may use is not negative, and the request within the limit.
func podResource(guest *v1.VirtualMachineInstanceSpec, name corev1.ResourceName, spec *field.Path) (errs field.ErrorList) {
	at := spec.Child("domain", "resources")
	request, requested := guest.Domain.Resources.Requests[name]
	limit, limited := guest.Domain.Resources.Limits[name]
	if requested && request.Sign() < 0 {
		errs = append(errs, field.Invalid(at.Child("requests", string(name)), request.String(), "must not be negative"))
	}
	if limited && limit.Sign() < 0 {
		errs = append(errs, field.Invalid(at.Child("limits", string(name)), limit.String(), "must not be negative"))
	}
	if requested && limited && limit.Sign() > 0 && request.Cmp(limit) > 0 {
		errs = append(errs, field.Invalid(at.Child("requests", string(name)), request.String(), "must not be greater than the limit '"+limit.String()+"'"))
	}
	return errs
}
