package validate

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/internal/vm"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// Fields: domain.memory.
// Memory is given, greater than 0, at most what a processor addresses, and a multiple of the huge page size.
// Requests and limits of memory are in resources.go, because they are the pod's.

var memoryRules = []guestRule{
	{memoryGiven, []Rule{
		{Name: "memory/given", KubeVirt: KubeVirtRefusesVMI, MendedBy: byCompletion | byInstancetype},
	}},
	{hugepages, []Rule{
		{Name: "memory/page-size-given", MendedBy: byInstancetype},
		{Name: "memory/page-size", MendedBy: byInstancetype},
		{Name: "memory/page-size-unit", KubeVirt: KubeVirtAdmits, MendedBy: byInstancetype},
		{Name: "memory/page-size-architecture", KubeVirt: KubeVirtRefusesSome, MendedBy: byInstancetype | byPreference},
	}},
	{guestMemory, []Rule{
		{Name: "memory/max-guest", KubeVirt: KubeVirtAdmits, MendedBy: byInstancetype},
		{Name: "memory/guest", KubeVirt: KubeVirtRefusesSome, MendedBy: byInstancetype},
		{Name: "memory/guest-max", KubeVirt: KubeVirtRefusesSome, MendedBy: byInstancetype},
		{Name: "memory/guest-limit", MendedBy: byInstancetype},
		{Name: "memory/unit", KubeVirt: KubeVirtRefusesSome, MendedBy: byInstancetype},
	}},
}

var overheadRules = []guestRule{
	{memoryOverhead, []Rule{
		{Name: "memory/overhead-gate", MendedBy: byInstancetype},
		{Name: "memory/overhead-unit", KubeVirt: KubeVirtAdmits, MendedBy: byInstancetype},
	}},
}

// memoryGiven requires one of the three fields that give the amount of memory.
// In KubeVirt it is ValidateVirtualMachineInstanceMandatoryFields, which KubeVirt applies to VMIs only and without a field. A limit alone gives
// memory too: mutate has copied it to memory.guest before.
func memoryGiven(spec *v1.VirtualMachineInstanceSpec, _ config.Limits, path *field.Path) field.ErrorList {
	memory := spec.Domain.Memory
	request := spec.Domain.Resources.Requests[corev1.ResourceMemory]
	if !request.IsZero() || memory != nil && (memory.Guest != nil || memory.Hugepages != nil) {
		return nil
	}
	at := path.Child("domain", "memory")
	if memory != nil {
		at = at.Child("guest")
	}
	return field.ErrorList{field.Required(at, "set memory.guest or resources.requests.memory").WithOrigin("memory/given")}
}

// hugepages refuses page sizes that are no amount of memory.
// KubeVirt (validateHugepagesMemoryRequests) requires only a quantity, and panics on 0, by which it divides. libvirt counts pages in
// KiB.
func hugepages(spec *v1.VirtualMachineInstanceSpec, _ config.Limits, path *field.Path) field.ErrorList {
	if spec.Domain.Memory == nil || spec.Domain.Memory.Hugepages == nil {
		return nil
	}
	return pageSize(spec.Domain.Memory.Hugepages.PageSize, spec.Architecture, path.Child("domain", "memory", "hugepages", "pageSize"))
}

// pageSize judges the size of huge pages of an architecture; of any where it is empty.
func pageSize(given, architecture string, at *field.Path) field.ErrorList {
	if given == "" {
		return field.ErrorList{field.Required(at, "give the page size, such as '2Mi'").WithOrigin("memory/page-size-given")}
	}
	size, err := resource.ParseQuantity(given)
	if err != nil {
		return field.ErrorList{field.Invalid(at, given, NoQuantity(given)).WithOrigin("memory/page-size")}
	}
	if !vm.IsMemory(size) {
		return field.ErrorList{field.Invalid(at, given, vm.NoMemory+", such as '2Mi'").WithOrigin("memory/page-size")}
	}
	if size.Value()%1024 != 0 {
		return field.ErrorList{field.Invalid(at, given, "must be a number of KiB, such as '2Mi'").WithOrigin("memory/page-size")}
	}
	if size.CmpInt64(leastPage) < 0 {
		return field.ErrorList{field.Invalid(at, given, "must be at least 64Ki; is the unit missing?").WithOrigin("memory/page-size-unit")}
	}
	if sizes := pagesOf(architecture); !hasPage(sizes, size) {
		return field.ErrorList{field.Invalid(at, given, noPage(architecture, sizes)).WithOrigin("memory/page-size-architecture")}
	}
	return nil
}

// leastPage is the smallest huge page of an architecture: 16 contiguous pages of 4 KiB on arm64.
const leastPage = 64 << 10

// hugePages are the sizes of the huge pages of an architecture, for each size of its small pages: Linux, Documentation/arch/arm64/hugetlbpage.rst and
// arch/x86/mm/hugetlbpage.c. A mainframe has pages of 2 GiB too, with which KVM backs no guest (QEMU, hw/s390x/s390-virtio-ccw.c).
var hugePages = map[string][]string{
	amd64: {"2Mi", "1Gi"},
	arm64: {"64Ki", "2Mi", "32Mi", "512Mi", "1Gi", "16Gi"},
	s390x: {"1Mi"},
}

// pagesOf returns the sizes of the huge pages of an architecture, or the sizes of all architectures if the architecture is not known.
func pagesOf(architecture string) (sizes []string) {
	if known := hugePages[architecture]; known != nil {
		return known
	}
	return slices.Concat(hugePages[s390x], hugePages[arm64]) // arm64 has all sizes of amd64
}

// hasPage reports whether a size is one of sizes.
func hasPage(sizes []string, size resource.Quantity) bool {
	return slices.ContainsFunc(sizes, func(one string) bool { return size.Cmp(resource.MustParse(one)) == 0 })
}

// noPage is the detail of an error about a size that no huge page has.
func noPage(architecture string, sizes []string) string {
	if hugePages[architecture] == nil {
		return "no architecture has huge pages of this size: use one of " + strings.Join(sizes, ", ")
	}
	return fmt.Sprintf("architecture '%s' has no huge pages of this size: use %s", architecture, strings.Join(sizes, ", "))
}

// minMemory is the smallest amount of memory. A smaller one is a forgotten unit ("64" is 64 bytes), or a unit of thousandths ("100m"). KubeVirt has it for
// the request alone (validateMemoryRequestsNegativeOrNull), and renders a guest of 2 KiB.
var minMemory = resource.MustParse("1M")

// unitMissing reports whether an amount of memory is too small for its unit to be meant. Nothing, and less, is refused elsewhere.
func unitMissing(amount resource.Quantity) bool {
	return amount.Sign() > 0 && amount.Cmp(minMemory) < 0
}

// lessThanMinimum is the detail of an error about an amount without its unit, or in thousandths of a byte.
func lessThanMinimum(amount resource.Quantity) string {
	if strings.HasSuffix(amount.String(), "m") {
		return "must be at least 1M; 'm' is a thousandth of a byte: is 'M' or 'Mi' meant?"
	}
	return "must be at least 1M; is the unit missing?"
}

// guestMemory compares with the pod's limit only if memory cannot change while the VMI runs (rollout strategy Stage): with LiveUpdate
// the limit follows memory.guest.
// The comparison is validateGuestMemoryLimit. KubeVirt accepts any amount, and fails when the VMI starts.
func guestMemory(spec *v1.VirtualMachineInstanceSpec, limits config.Limits, path *field.Path) (errs field.ErrorList) {
	memory := spec.Domain.Memory
	if memory == nil {
		return nil
	}
	of := path
	path = path.Child("domain", "memory")
	if memory.MaxGuest != nil && !vm.IsMemory(*memory.MaxGuest) {
		errs = append(errs, field.Invalid(path.Child("maxGuest"), memory.MaxGuest.String(), vm.NoMemory).WithOrigin("memory/max-guest"))
	}
	if memory.MaxGuest != nil && unitMissing(*memory.MaxGuest) && (memory.Guest == nil || memory.Guest.Cmp(*memory.MaxGuest) != 0) {
		errs = append(errs, field.Invalid(path.Child("maxGuest"), memory.MaxGuest.String(), lessThanMinimum(*memory.MaxGuest)).WithOrigin("memory/unit"))
	}
	if memory.Guest == nil {
		return errs
	}
	if path = path.Child("guest"); !vm.IsMemory(*memory.Guest) {
		at := path
		if from := podsMemory(spec, *memory.Guest, of); from != nil {
			at = from
		}
		return append(errs, field.Invalid(at, memory.Guest.String(), vm.NoMemory).WithOrigin("memory/guest"))
	}
	if unitMissing(*memory.Guest) && !fromPod(spec, *memory.Guest) {
		errs = append(errs, field.Invalid(path, memory.Guest.String(), lessThanMinimum(*memory.Guest)).WithOrigin("memory/unit"))
	}
	if memory.MaxGuest != nil && memory.MaxGuest.Sign() > 0 && !unitMissing(*memory.MaxGuest) && memory.Guest.Cmp(*memory.MaxGuest) > 0 {
		errs = append(errs, field.Invalid(path, memory.Guest.String(),
			fmt.Sprintf("must not be greater than maxGuest '%s'", memory.MaxGuest.String())).WithOrigin("memory/guest-max"))
	}
	limit := spec.Domain.Resources.Limits[corev1.ResourceMemory]
	if limits.LiveUpdate == nil && !limit.IsZero() && memory.Guest.Cmp(limit) > 0 {
		errs = append(errs, field.Invalid(path, memory.Guest.String(),
			fmt.Sprintf("must not be greater than resources.limits.memory '%s'", limit.String())).WithOrigin("memory/guest-limit"))
	}
	return errs
}

// fromPod reports whether an amount is also the pod's request or limit, or the size of a huge page: memory.guest is made from them where it is not written,
// and the mistake is at them.
func fromPod(spec *v1.VirtualMachineInstanceSpec, amount resource.Quantity) bool {
	return podsMemory(spec, amount, nil) != nil || vm.PageSize(spec.Domain.Memory) == amount.Value()
}

// podsMemory returns the path of the pod's request or limit that equals an amount of memory; nil if both differ from it. path is the spec's.
func podsMemory(spec *v1.VirtualMachineInstanceSpec, amount resource.Quantity, path *field.Path) *field.Path {
	if request, set := spec.Domain.Resources.Requests[corev1.ResourceMemory]; set && request.Cmp(amount) == 0 {
		return requestPath(path, corev1.ResourceMemory)
	}
	if limit, set := spec.Domain.Resources.Limits[corev1.ResourceMemory]; set && limit.Cmp(amount) == 0 {
		return limitPath(path, corev1.ResourceMemory)
	}
	return nil
}

// memoryOverhead is validateReservedOverheadMemlock.
func memoryOverhead(spec *v1.VirtualMachineInstanceSpec, limits config.Limits, path *field.Path) field.ErrorList {
	if spec.Domain.Memory == nil || spec.Domain.Memory.ReservedOverhead == nil {
		return nil
	}
	at := path.Child("domain", "memory", "reservedOverhead")
	errs := gated(limits, "ReservedOverheadMemlock", at).WithOrigin("memory/overhead-gate")
	if added := spec.Domain.Memory.ReservedOverhead.AddedOverhead; added != nil && unitMissing(*added) {
		errs = append(errs, field.Invalid(at.Child("addedOverhead"), added.String(), lessThanMinimum(*added)).WithOrigin("memory/overhead-unit"))
	}
	return errs
}
