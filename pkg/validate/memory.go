package validate

import (
	"github.com/kilnvm/kiln/pkg/config"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// Fields: domain.memory, domain.resources.*.memory. A guest without memory cannot start, and a page size of zero divides nothing.

func guestMemory(guest *v1.VirtualMachineInstanceSpec, _ config.Limits, spec *field.Path) (errs field.ErrorList) {
	at := spec.Child("domain", "memory", "guest")
	memory := guest.Domain.Memory
	if memory == nil || memory.Guest == nil {
		return field.ErrorList{field.Required(at, "the guest needs memory: set it here, in `resources.requests.memory`, or choose an instancetype")}
	}
	if memory.Guest.Sign() <= 0 {
		errs = append(errs, field.Invalid(at, memory.Guest.String(), "must be greater than 0"))
	}
	if memory.MaxGuest != nil && memory.MaxGuest.Cmp(*memory.Guest) < 0 {
		errs = append(errs, field.Invalid(at, memory.Guest.String(), "must not be greater than `maxGuest`, '"+memory.MaxGuest.String()+"'"))
	}
	return errs
}

func hugepages(guest *v1.VirtualMachineInstanceSpec, _ config.Limits, spec *field.Path) field.ErrorList {
	memory := guest.Domain.Memory
	if memory == nil || memory.Hugepages == nil {
		return nil
	}
	page, err := resource.ParseQuantity(memory.Hugepages.PageSize)
	if err != nil || page.Sign() <= 0 {
		return field.ErrorList{field.Invalid(spec.Child("domain", "memory", "hugepages", "pageSize"), memory.Hugepages.PageSize, "must be a size above 0 such as '2Mi' or '1Gi'")}
	}
	if memory.Guest != nil && memory.Guest.Value()%page.Value() != 0 {
		return field.ErrorList{field.Invalid(spec.Child("domain", "memory", "guest"), memory.Guest.String(), "must be a multiple of the huge page size '"+memory.Hugepages.PageSize+"'")}
	}
	return nil
}

// minRequest tells a forgotten unit from a small guest: '512' is bytes.
var minRequest = resource.MustParse("1M")

func podMemory(guest *v1.VirtualMachineInstanceSpec, _ config.Limits, spec *field.Path) field.ErrorList {
	errs := podResource(guest, corev1.ResourceMemory, spec)
	if request, found := guest.Domain.Resources.Requests[corev1.ResourceMemory]; found && request.Sign() > 0 && request.Cmp(minRequest) < 0 {
		errs = append(errs, field.Invalid(spec.Child("domain", "resources", "requests", "memory"), request.String(), "must be at least '1M'; is the unit missing?"))
	}
	return errs
}
