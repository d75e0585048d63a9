package validate

import (
	"fmt"

	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/internal/vm"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// Fields: domain.memory.maxGuest of a VM.
// With maxGuest the memory can be hotplugged: in blocks, on x86, neither encrypted nor with the host's NUMA layout.
// KubeVirt judges VMs in validateLiveUpdateFeatures by ValidateLiveUpdateMemory. The same conditions decide in mutate whether maxGuest
// gets a default; package vm has them once.

var numaGrowthRules = []guestRule{
	{numaGrowth, []Rule{
		{Name: "memory/numa-pages", KubeVirt: KubeVirtAdmits, MendedBy: byInstancetype},
		{Name: "memory/numa-growth", KubeVirt: KubeVirtRefusesSome, MendedBy: byInstancetype},
	}},
}

var growthRules = []metadataRule{
	{growth, []Rule{
		{Name: "memory/growth-guest", MendedBy: byInstancetype},
		{Name: "memory/growth", KubeVirt: KubeVirtRefusesSome, MendedBy: byInstancetype},
	}},
}

// growth applies to VMs only, as in KubeVirt.
func growth(vmi *v1.VirtualMachineInstance, limits config.Limits, path *field.Path) field.ErrorList {
	memory := vmi.Spec.Domain.Memory
	if limits.LiveUpdate == nil || memory == nil || memory.MaxGuest == nil {
		return nil
	}
	if memory.Guest == nil {
		return field.ErrorList{field.Required(path.Child("spec", "domain", "memory", "guest"), "must be set when maxGuest is set").WithOrigin("memory/growth-guest")}
	}
	if memory.Guest.Cmp(*memory.MaxGuest) > 0 || unitMissing(*memory.Guest) || unitMissing(*memory.MaxGuest) {
		return nil // guestMemory reports it, for VMIs too
	}
	if why, _ := vm.FixedMemory(&vmi.Spec, *memory.MaxGuest); why != "" {
		return field.ErrorList{field.Invalid(path.Child("spec", "domain", "memory", "maxGuest"), memory.MaxGuest.String(),
			why+": remove maxGuest").WithOrigin("memory/growth")}
	}
	return nil
}

// numaGrowth judges memory with guestMappingPassthrough, which cannot grow: guest is a multiple of the huge page size, and maxGuest is not
// greater than guest.
// KubeVirt accepts maxGuest here on a VMI, and renders no memory to be plugged.
func numaGrowth(spec *v1.VirtualMachineInstanceSpec, _ config.Limits, path *field.Path) field.ErrorList {
	memory := spec.Domain.Memory
	if !vm.MirrorsNUMA(spec.Domain.CPU) || memory == nil || memory.Guest == nil {
		return nil
	}
	if page := vm.PageSize(memory); page > 0 && memory.Guest.Value()%page != 0 {
		return field.ErrorList{field.Invalid(path.Child("domain", "memory", "guest"), memory.Guest.String(),
			fmt.Sprintf("must be a multiple of memory.hugepages.pageSize '%s'", memory.Hugepages.PageSize)).WithOrigin("memory/numa-pages")}
	}
	if memory.MaxGuest == nil || memory.MaxGuest.Cmp(*memory.Guest) <= 0 {
		return nil
	}
	return field.ErrorList{field.Forbidden(path.Child("domain", "memory", "maxGuest"),
		"cannot be combined with cpu.numa.guestMappingPassthrough: remove maxGuest").WithOrigin("memory/numa-growth")}
}
