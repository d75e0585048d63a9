package instancetype

import (
	"fmt"
	"strings"

	"github.com/kilnvm/kiln/pkg/internal/vm"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
	"kubevirt.io/api/instancetype/v1beta1"
)

// Requirements returns an error of type Invalid for each requirement of the preference that the explicit VMI does not meet, and for vCPUs that cannot be
// spread. explicit has all defaults, written is the template as the user wrote it, and path is the path of the VM's spec. Errors are at fields that the user
// can change: path.instancetype if the VM has an instancetype, else the nearest field of the template that the user wrote. KubeVirt's checker returns only
// the first error.
func Requirements(set Set, explicit *v1.VirtualMachineInstance, written *v1.VirtualMachineInstanceSpec, path *field.Path) (errs field.ErrorList) {
	if set.Preference == nil {
		return nil
	}
	errs = CheckSpread(set, path.Child("preference"))
	for _, judge := range []func(requirement, *v1.VirtualMachineInstance) *field.Error{cpuRequirement, memoryRequirement, architectureRequirement} {
		if set.Preference.Spec.Requirements == nil {
			break
		}
		if err := judge(requirement{set, &written.Domain, path}, explicit); err != nil {
			errs = append(errs, err)
		}
	}
	return errs
}

// Fits reports whether an instancetype has the vCPUs and the memory that a preference requires, and a number of vCPUs that the preference can spread. It is
// true without an instancetype or without a preference. Unlike Requirements it needs no VMI and makes no texts, because catalogs have thousands of pairs.
func Fits(set Set) bool {
	if set.Instancetype == nil || set.Preference == nil {
		return true
	}
	have, need := &set.Instancetype.Spec, set.Preference.Spec.Requirements
	switch {
	case spreadUnit(have.CPU.Guest, set.Preference) != "":
		return false
	case need == nil:
		return true
	case need.CPU != nil && have.CPU.Guest < need.CPU.Guest:
		return false
	}
	return need.Memory == nil || have.Memory.Guest.Cmp(need.Memory.Guest) >= 0
}

// Shortfall returns why Fits is false, in the words of Requirements without the remedy and the name of the instancetype; empty if Fits is true.
func Shortfall(set Set) string {
	if Fits(set) {
		return ""
	}
	have := &set.Instancetype.Spec
	if unit := spreadUnit(have.CPU.Guest, set.Preference); unit != "" {
		return unevenSpread(set, unit)
	}
	need := set.Preference.Spec.Requirements
	if need.CPU != nil && have.CPU.Guest < need.CPU.Guest {
		return shortfallText(set, countText(have.CPU.Guest, "vCPUs"), countText(need.CPU.Guest, "vCPUs"))
	}
	return shortfallText(set, have.Memory.Guest.String()+" of memory", need.Memory.Guest.String()+" of memory")
}

// requirement is what the requirement functions need besides the explicit VMI.
type requirement struct {
	Set
	written *v1.DomainSpec
	path    *field.Path
}

// shortfallText returns what an instancetype has and what its preference requires, without the remedy.
func shortfallText(set Set, has, required string) string {
	return fmt.Sprintf("has %s, and %s requires %s", has, set.Preference.Source, required)
}

// asError returns the error about a requirement: at the instancetype, which has too little, or without an instancetype at a field of the template. value is the
// value of this field, and has the amount that the VMI has, in words.
func (r requirement) asError(at *field.Path, value any, has, required string) *field.Error {
	if used := r.Instancetype; used != nil {
		return field.Invalid(r.path.Child("instancetype"), used.Name,
			fmt.Sprintf("%s %s: choose a larger instancetype, or another preference", used.Source, shortfallText(r.Set, has, required)))
	}
	return field.Invalid(at, value, fmt.Sprintf("%s requires %s: raise it, or choose another preference", r.Preference.Source, required))
}

// cpuRequirement is checkCPU and checkSpread.
func cpuRequirement(r requirement, explicit *v1.VirtualMachineInstance) *field.Error {
	want := r.Preference.Spec.Requirements.CPU
	if want == nil {
		return nil
	}
	has := vcpusOf(r.Set, explicit)
	if has.count >= want.Guest {
		return nil
	}
	at := r.path.Child("template", "spec", "domain", "cpu")
	if r.written.CPU != nil && has.field != "" {
		at = at.Child(has.field)
	}
	return r.asError(at, has.count, countText(has.count, has.unit), countText(want.Guest, has.unit))
}

// countText returns a number with its unit. unit is in the plural.
func countText(count uint32, unit string) string {
	if count == 1 {
		unit = strings.TrimSuffix(unit, "s")
	}
	return fmt.Sprintf("%d %s", count, unit)
}

// memoryRequirement is checkMemory.
func memoryRequirement(r requirement, explicit *v1.VirtualMachineInstance) *field.Error {
	want := r.Preference.Spec.Requirements.Memory
	if want == nil {
		return nil
	}
	var have resource.Quantity
	if memory := explicit.Spec.Domain.Memory; memory != nil && memory.Guest != nil {
		have = *memory.Guest
	}
	if have.Cmp(want.Guest) >= 0 {
		return nil
	}
	at := r.path.Child("template", "spec", "domain", "memory")
	if r.written.Memory != nil {
		at = at.Child("guest")
	}
	return r.asError(at, have.String(), have.String()+" of memory", want.Guest.String()+" of memory")
}

// architectureRequirement is checkArch. Its error is never at the instancetype, which has no architecture.
func architectureRequirement(r requirement, explicit *v1.VirtualMachineInstance) *field.Error {
	want := r.Preference.Spec.Requirements.Architecture
	if want == nil || *want == explicit.Spec.Architecture {
		return nil
	}
	return field.Invalid(r.path.Child("template", "spec", "architecture"), explicit.Spec.Architecture,
		fmt.Sprintf("%s requires '%s': change it, or choose another preference", r.Preference.Source, *want))
}

// CheckSpread returns an error of type Invalid if the preference cannot spread the vCPUs of the instancetype evenly (CheckSpreadCPUTopology). It needs no VMI,
// so that the error can be reported together with conflicts. path is the path of the reference to the preference. Requirements includes this error.
func CheckSpread(set Set, path *field.Path) field.ErrorList {
	if set.Preference == nil || set.Instancetype == nil {
		return nil
	}
	unit := spreadUnit(set.Instancetype.Spec.CPU.Guest, set.Preference)
	if unit == "" {
		return nil
	}
	return field.ErrorList{field.Invalid(path, set.Preference.Name, unevenSpread(set, unit)+": choose an instancetype with a multiple of that")}
}

// unevenSpread returns the message that the vCPUs of an instancetype are not a multiple of the unit in which its preference spreads them.
func unevenSpread(set Set, unit string) string {
	return fmt.Sprintf("%s spreads vCPUs in units of %s, and %s has %s",
		set.Preference.Source, unit, set.Instancetype.Source, countText(set.Instancetype.Spec.CPU.Guest, "vCPUs"))
}

// spreadUnit returns the unit of which a number of vCPUs is not a multiple, but must be; empty if there is no such unit. One vCPU needs no spreading; KubeVirt
// refuses it.
func spreadUnit(vcpus uint32, p *Preference) string {
	if vcpus <= 1 || topologyOf(p) != v1beta1.Spread {
		return ""
	}
	if divisor := spreadOf(p).unit(); uint64(vcpus)%divisor != 0 {
		return fmt.Sprint(divisor)
	}
	return ""
}

// vcpuCount is a count of vCPUs, with its unit for messages.
type vcpuCount struct {
	unit  string
	count uint32
	// field of domain.cpu that holds the count, empty for a product of several.
	field string
}

// vcpusOf returns the vCPUs that are compared with requirements.cpu.guest: cpu.guest of an instancetype, else the fields of domain.cpu that
// preferredCPUTopology names, as in KubeVirt. A count that is left out beside another is 1; KubeVirt takes it for 0.
func vcpusOf(set Set, explicit *v1.VirtualMachineInstance) vcpuCount {
	if set.Instancetype != nil {
		return vcpuCount{unit: "vCPUs", count: set.Instancetype.Spec.CPU.Guest}
	}
	sockets, cores, threads := vm.Topology(explicit.Spec.Domain.CPU)
	switch topologyOf(set.Preference) {
	case v1beta1.Cores:
		return vcpuCount{"cores", cores, "cores"}
	case v1beta1.Threads:
		return vcpuCount{"threads", threads, "threads"}
	case v1beta1.Any:
		return vcpuCount{"vCPUs", sockets * cores * threads, ""}
	case v1beta1.Spread:
		switch spreadOf(set.Preference).across {
		case v1beta1.SpreadAcrossCoresThreads:
			return vcpuCount{"vCPUs as cores x threads", cores * threads, ""}
		case v1beta1.SpreadAcrossSocketsCoresThreads:
			return vcpuCount{"vCPUs as sockets x cores x threads", sockets * cores * threads, ""}
		}
		return vcpuCount{"vCPUs as sockets x cores", sockets * cores, ""}
	}
	return vcpuCount{"sockets", sockets, "sockets"}
}
