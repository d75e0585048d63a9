package validate

import (
	"maps"
	"slices"
	"strings"

	"github.com/kilnvm/kiln/pkg/config"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// Fields: domain.resources.requests and limits of resources other than cpu and memory.
// KubeVirt copies them into the pod, where the API server judges them: an extended resource is a whole number, and of it the pod requests its limit.
// Source: ValidateContainerResourceName, ValidateResourceQuantityValue and ValidateResourceRequirements of Kubernetes.

var otherResourceRules = []guestRule{
	{otherResources, append([]Rule{
		{Name: "resources/name", KubeVirt: KubeVirtAdmits},
		{Name: "resources/whole", KubeVirt: KubeVirtAdmits},
		{Name: "resources/limit-equal", KubeVirt: KubeVirtAdmits},
	}, requestRules...)},
}

// otherResources judges each resource once, in alphabetical order.
func otherResources(spec *v1.VirtualMachineInstanceSpec, _ config.Limits, path *field.Path) (errs field.ErrorList) {
	requests, limits := spec.Domain.Resources.Requests, spec.Domain.Resources.Limits
	if !hasOthers(requests) && !hasOthers(limits) {
		return nil
	}
	names := slices.Concat(slices.Collect(maps.Keys(limits)), slices.Collect(maps.Keys(requests)))
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		if name != corev1.ResourceCPU && name != corev1.ResourceMemory {
			errs = append(errs, otherResource(spec, name, path)...)
		}
	}
	return errs
}

// hasOthers reports whether a list has resources other than cpu and memory.
func hasOthers(list corev1.ResourceList) bool {
	for name := range list {
		if name != corev1.ResourceCPU && name != corev1.ResourceMemory {
			return true
		}
	}
	return false
}

// otherResource judges one resource. Of a request that equals its limit only the limit is reported, as in requestAndLimit.
func otherResource(spec *v1.VirtualMachineInstanceSpec, name corev1.ResourceName, path *field.Path) field.ErrorList {
	request, requested := spec.Domain.Resources.Requests[name]
	limit, limited := spec.Domain.Resources.Limits[name]
	requestAt, limitAt := requestPath(path, name), limitPath(path, name)
	if wrong := wrongResourceName(string(name)); wrong != "" {
		at := requestAt
		if limited {
			at = limitAt
		}
		return field.ErrorList{field.Invalid(at, string(name), wrong).WithOrigin("resources/name")}
	}
	if mayOvercommit(name) || request.Sign() < 0 || limit.Sign() < 0 {
		return requestAndLimit(spec, name, path)
	}
	var errs field.ErrorList
	parts := func(quantity resource.Quantity) bool { return isExtended(name) && quantity.MilliValue()%1000 != 0 }
	if parts(limit) {
		errs = append(errs, field.Invalid(limitAt, limit.String(), whole).WithOrigin("resources/whole"))
	}
	if parts(request) && request.Cmp(limit) != 0 {
		errs = append(errs, field.Invalid(requestAt, request.String(), whole).WithOrigin("resources/whole"))
	}
	if requested && request.Cmp(limit) != 0 && len(errs) == 0 {
		errs = append(errs, field.Invalid(requestAt, request.String(), "must be equal to the limit in resources.limits").WithOrigin("resources/limit-equal"))
	}
	return errs
}

// whole is the text of an extended resource that is no whole number.
const whole = "must be a whole number"

// isExtended reports whether a resource is one of a device plugin, which is counted in whole numbers.
func isExtended(name corev1.ResourceName) bool {
	return strings.Contains(string(name), "/") && !strings.Contains(string(name), corev1.ResourceDefaultNamespacePrefix)
}

// mayOvercommit reports whether a pod may request less of the resource than its limit.
func mayOvercommit(name corev1.ResourceName) bool {
	return !isExtended(name) && !strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix)
}

// wrongDeviceName returns why no device plugin can have a resource of that name; empty if one can.
func wrongDeviceName(name string) string {
	if !isExtended(corev1.ResourceName(name)) {
		return "must be the resource of a device plugin with its domain, such as example.org/gpu"
	}
	return wrongResourceName(name)
}

// wrongResourceName returns why no container can have a resource of that name; empty if one can.
func wrongResourceName(name string) string {
	const known = "must be cpu, memory, ephemeral-storage, hugepages-SIZE, or a name with the domain of its device plugin, such as example.org/gpu"
	size, pages := strings.CutPrefix(name, corev1.ResourceHugePagesPrefix)
	switch {
	case name == string(corev1.ResourceEphemeralStorage):
		return ""
	case pages:
		if _, err := resource.ParseQuantity(size); err == nil {
			return ""
		}
		return known
	case !strings.Contains(name, "/"):
		return known
	case isExtended(corev1.ResourceName(name)) && strings.HasPrefix(name, corev1.DefaultResourceRequestsPrefix):
		return "must not begin with '" + corev1.DefaultResourceRequestsPrefix + "'"
	case isExtended(corev1.ResourceName(name)):
		// A ResourceQuota names it with this prefix, which must be a legal name too.
		return strings.Join(validation.IsQualifiedName(corev1.DefaultResourceRequestsPrefix+name), "; ")
	}
	return strings.Join(validation.IsQualifiedName(name), "; ")
}
