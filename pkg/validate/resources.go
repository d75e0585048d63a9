package validate

import (
	"fmt"

	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/internal/vm"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// Fields: domain.resources.
// The VMI's pod gets these requests and limits: not negative, no request greater than its limit, memory a multiple of the huge page size.
// KubeVirt has one function for each comparison: validateMemoryRequestsNegativeOrNull, validateCPULimitNotNegative,
// validateCpuRequestDoesNotExceedLimit and their neighbours.

var resourcesRules = []guestRule{
	{memoryResources, append([]Rule{
		{Name: "resources/memory-unit", MendedBy: byInstancetype},
	}, requestRules...)},
	{pageMultiple, []Rule{
		{Name: "resources/page-size", KubeVirt: KubeVirtRefusesSome, MendedBy: byInstancetype},
		{Name: "resources/page-multiple", MendedBy: byInstancetype},
	}},
	{cpuResources, requestRules},
	{dedicatedResources, []Rule{
		{Name: "resources/dedicated-whole", MendedBy: byInstancetype},
		{Name: "resources/dedicated-memory-equal", MendedBy: byInstancetype},
	}},
}

// requestRules apply to the requests and limits of every resource.
var requestRules = []Rule{
	{Name: "resources/request-negative", MendedBy: byInstancetype},
	{Name: "resources/limit-negative", MendedBy: byInstancetype},
	{Name: "resources/request-over-limit", KubeVirt: KubeVirtRefusesSome, MendedBy: byInstancetype},
}

// memoryResources judges the units of requests and limits, too. The least request is the same as in validateMemoryRequestsNegativeOrNull.
func memoryResources(spec *v1.VirtualMachineInstanceSpec, _ config.Limits, path *field.Path) field.ErrorList {
	errs := requestAndLimit(spec, corev1.ResourceMemory, path)
	request, limit := spec.Domain.Resources.Requests[corev1.ResourceMemory], spec.Domain.Resources.Limits[corev1.ResourceMemory]
	if unitMissing(request) && request.Cmp(limit) != 0 {
		errs = append(errs, field.Invalid(requestPath(path, corev1.ResourceMemory), request.String(), lessThanMinimum(request)).WithOrigin("resources/memory-unit"))
	}
	if unitMissing(limit) {
		errs = append(errs, field.Invalid(limitPath(path, corev1.ResourceMemory), limit.String(), lessThanMinimum(limit)).WithOrigin("resources/memory-unit"))
	}
	return errs
}

func cpuResources(spec *v1.VirtualMachineInstanceSpec, _ config.Limits, path *field.Path) field.ErrorList {
	return requestAndLimit(spec, corev1.ResourceCPU, path)
}

// requestPath returns the path of a request below a spec.
func requestPath(spec *field.Path, name corev1.ResourceName) *field.Path {
	return quantityPath(spec.Child("domain", "resources", "requests"), name)
}

// limitPath returns the path of a limit below a spec.
func limitPath(spec *field.Path, name corev1.ResourceName) *field.Path {
	return quantityPath(spec.Child("domain", "resources", "limits"), name)
}

// quantityPath returns the path of a quantity in a list. Names other than cpu and memory can have dots.
func quantityPath(list *field.Path, name corev1.ResourceName) *field.Path {
	if name == corev1.ResourceCPU || name == corev1.ResourceMemory {
		return list.Child(string(name))
	}
	return list.Key(string(name))
}

// requestAndLimit judges one resource. A limit of 0 bounds no request, as for pods. If a request equals its limit only the limit is reported, here and in the
// other rules, because a request that is not written is made from the limit: one mistake would have two causes.
func requestAndLimit(spec *v1.VirtualMachineInstanceSpec, name corev1.ResourceName, path *field.Path) (errs field.ErrorList) {
	request, limit := spec.Domain.Resources.Requests[name], spec.Domain.Resources.Limits[name]
	if request.Sign() < 0 && request.Cmp(limit) != 0 {
		errs = append(errs, field.Invalid(requestPath(path, name), request.String(), "must not be negative").WithOrigin("resources/request-negative"))
	}
	if limit.Sign() < 0 {
		errs = append(errs, field.Invalid(limitPath(path, name), limit.String(), "must not be negative").WithOrigin("resources/limit-negative"))
	}
	if limit.Sign() > 0 && request.Cmp(limit) > 0 && (name != corev1.ResourceMemory || !unitMissing(limit)) {
		errs = append(errs, field.Invalid(requestPath(path, name), request.String(),
			fmt.Sprintf("must not be greater than the limit '%s'", limit.String())).WithOrigin("resources/request-over-limit"))
	}
	return errs
}

// pageMultiple judges the field that gives the memory: the request, by which the pod's huge pages are counted, else memory.guest, else the
// limit.
// In KubeVirt it is validateHugepagesMemoryRequests, which reports resources.requests.memory whichever field gives the memory.
func pageMultiple(spec *v1.VirtualMachineInstanceSpec, _ config.Limits, path *field.Path) field.ErrorList {
	page := vm.PageSize(spec.Domain.Memory)
	if page == 0 {
		return nil
	}
	at, memory := requestPath(path, corev1.ResourceMemory), spec.Domain.Resources.Requests[corev1.ResourceMemory]
	if memory.IsZero() && spec.Domain.Memory.Guest != nil {
		at, memory = path.Child("domain", "memory", "guest"), *spec.Domain.Memory.Guest
	} else if memory.IsZero() {
		at, memory = limitPath(path, corev1.ResourceMemory), spec.Domain.Resources.Limits[corev1.ResourceMemory]
	}
	size := spec.Domain.Memory.Hugepages.PageSize
	switch {
	case memory.Sign() <= 0: // absent, or refused elsewhere
		return nil
	case memory.Value() < page:
		return field.ErrorList{field.Invalid(at, memory.String(),
			fmt.Sprintf("must not be less than memory.hugepages.pageSize '%s'", size)).WithOrigin("resources/page-size")}
	case memory.Value()%page != 0:
		return field.ErrorList{field.Invalid(at, memory.String(),
			fmt.Sprintf("must be a multiple of memory.hugepages.pageSize '%s'", size)).WithOrigin("resources/page-multiple")}
	}
	return nil
}

// dedicatedResources requires whole CPUs and equal requests and limits of memory, because the kubelet dedicates CPUs only to pods of the
// Guaranteed QoS class.
// In KubeVirt it is validateMemoryRequestsAndLimits, validateCPULimitIsInteger and validateCPURequestIsInteger. Rule memory/given refuses what
// validateMemoryIsProvided refuses.
func dedicatedResources(spec *v1.VirtualMachineInstanceSpec, _ config.Limits, path *field.Path) (errs field.ErrorList) {
	if !dedicated(spec) {
		return nil
	}
	resources := spec.Domain.Resources
	const whole = "must be a whole number of CPUs with dedicatedCpuPlacement"
	requested, allowed := resources.Requests[corev1.ResourceCPU], resources.Limits[corev1.ResourceCPU]
	if requested.MilliValue()%1000 != 0 && requested.Cmp(allowed) != 0 {
		errs = append(errs, field.Invalid(requestPath(path, corev1.ResourceCPU), requested.String(), whole).WithOrigin("resources/dedicated-whole"))
	}
	if allowed.MilliValue()%1000 != 0 {
		errs = append(errs, field.Invalid(limitPath(path, corev1.ResourceCPU), allowed.String(), whole).WithOrigin("resources/dedicated-whole"))
	}
	request, limit := resources.Requests[corev1.ResourceMemory], resources.Limits[corev1.ResourceMemory]
	if request.Sign() > 0 && limit.Sign() > 0 && request.Cmp(limit) != 0 {
		errs = append(errs, field.Invalid(requestPath(path, corev1.ResourceMemory), request.String(),
			fmt.Sprintf("must be equal to the limit '%s' with dedicatedCpuPlacement", limit.String())).WithOrigin("resources/dedicated-memory-equal"))
	}
	return errs
}
