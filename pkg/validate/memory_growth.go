package validate

import (
	"fmt"

	"github.com/kilnvm/kiln/pkg/config"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// Fields: domain.memory.maxGuest of a VM.
// A guest that is to grow while it runs is one whose memory can: plugged in blocks, on x86, neither encrypted nor pinned.

var numaGrowthRules = []guestRule{
	{numaGrowth, []Rule{
		{Name: "memory/numa-pages", MendedBy: byInstancetype},
		{Name: "memory/numa-growth", MendedBy: byInstancetype},
	}},
}

var growthRules = []metadataRule{
	{growth, []Rule{
		{Name: "memory/growth-guest", MendedBy: byInstancetype},
		{Name: "memory/growth", MendedBy: byInstancetype},
	}},
}

// Growth judges how far the guest of a VM may grow while it runs. path is as for Guest. An explicit guest whose owner asked
// for nothing has a ceiling only if it can be used.
func Growth(vmi *v1.VirtualMachineInstance, limits config.Limits, path *field.Path) (errs field.ErrorList) {
	for _, rule := range growthRules {
		errs = append(errs, rule.judge(vmi, limits, path)...)
	}
	return errs
}

func growth(vmi *v1.VirtualMachineInstance, limits config.Limits, path *field.Path) field.ErrorList {
	memory := vmi.Spec.Domain.Memory
	if limits.LiveUpdate == nil || memory == nil || memory.MaxGuest == nil {
		return nil
	}
	at := path.Child("spec", "domain", "memory")
	if memory.Guest == nil {
		return field.ErrorList{field.Required(at.Child("guest"), "maxGuest needs guest to be set").WithOrigin("memory/growth-guest")}
	}
	if memory.Guest.Cmp(*memory.MaxGuest) > 0 {
		return nil // said by guestMemory, of every guest
	}
	if why := rigid(&vmi.Spec); why != "" {
		return field.ErrorList{field.Invalid(at.Child("guest"), memory.Guest.String(), why+": remove maxGuest").WithOrigin("memory/growth")}
	}
	return nil
}

// numaGrowth: the cells of a guest that mirrors those of its host are as large as they are, and made of whole pages.
func numaGrowth(spec *v1.VirtualMachineInstanceSpec, _ config.Limits, path *field.Path) field.ErrorList {
	memory := spec.Domain.Memory
	if !numaPassthrough(spec) || memory == nil || memory.Guest == nil {
		return nil
	}
	if page := pageSize(spec); page > 0 && memory.Guest.Value()%page != 0 {
		return field.ErrorList{field.Invalid(path.Child("domain", "memory", "guest"), memory.Guest.String(),
			fmt.Sprintf("must be a multiple of the huge pages, '%s'", memory.Hugepages.PageSize)).WithOrigin("memory/numa-pages")}
	}
	if memory.MaxGuest == nil || memory.MaxGuest.Cmp(*memory.Guest) <= 0 {
		return nil
	}
	return field.ErrorList{field.Forbidden(path.Child("domain", "memory", "maxGuest"), "memory of a guest with numa.guestMappingPassthrough cannot grow: remove it").WithOrigin("memory/numa-growth")}
}

// plugBlock is the unit in which memory is plugged (virtio-mem on x86); with pages of 1 GiB it is one page.
const (
	plugBlock = 2 << 20
	largePage = 1 << 30
	// minPluggable is the least memory of a guest that more can be plugged into: Linux places its first 32-bit devices above.
	minPluggable = 1 << 30
)

// rigid says why a guest's memory cannot grow, empty if it can.
func rigid(spec *v1.VirtualMachineInstanceSpec) string {
	memory, block := spec.Domain.Memory, int64(plugBlock)
	if pageSize(spec) == largePage {
		block = largePage
	}
	switch guest := memory.Guest; {
	case spec.Domain.CPU != nil && spec.Domain.CPU.Realtime != nil:
		return "memory of a realtime guest cannot grow"
	case numaPassthrough(spec):
		return "memory of a guest with numa.guestMappingPassthrough cannot grow"
	case spec.Domain.LaunchSecurity != nil:
		return "memory of an encrypted guest cannot grow"
	case guest.Value()%block != 0:
		return fmt.Sprintf("must be a multiple of %d MiB to grow", block>>20)
	case memory.MaxGuest.Value()%block != 0:
		return fmt.Sprintf("maxGuest must be a multiple of %d MiB", block>>20)
	case spec.Architecture != amd64:
		return "memory of architecture '" + spec.Architecture + "' cannot grow"
	case guest.Value() < minPluggable:
		return "memory below 1Gi cannot grow"
	}
	return ""
}
