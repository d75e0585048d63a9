package instancetype

import (
	"fmt"

	"github.com/kilnvm/kiln/pkg/internal/vm"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
	"kubevirt.io/api/instancetype/v1beta1"
)

// Requirements returns what the preference requires and the explicit guest does not offer, all at once. written is the guest
// as the user wrote it, and path the spec of the VirtualMachine. An error points at the reference to a size that is too small,
// else at the guest's own field, as deep as the user wrote it: that is what can be changed.
func Requirements(set Set, explicit *v1.VirtualMachineInstance, written *v1.VirtualMachineInstanceSpec, path *field.Path) (errs field.ErrorList) {
	if set.Preference == nil {
		return nil
	}
	errs = Unspread(set, path.Child("preference"))
	for _, judge := range []func(need, *v1.VirtualMachineInstance) *field.Error{cpuRequirement, memoryRequirement, architectureRequirement} {
		if set.Preference.Spec.Requirements == nil {
			break
		}
		if err := judge(need{set, &written.Domain, path}, explicit); err != nil {
			errs = append(errs, err)
		}
	}
	return errs
}

// need is one requirement of a preference that a guest is compared with.
type need struct {
	Set
	written *v1.DomainSpec
	path    *field.Path
}

// missed is the error about what has too little of something: the size, or else the guest's field.
func (n need) missed(guest *field.Path, have any, required string) *field.Error {
	if size := n.Instancetype; size != nil {
		return field.Invalid(n.path.Child("instancetype"), size.Name,
			fmt.Sprintf("%s has %v, and %s requires %s: choose a larger instancetype, or another preference", size.Source, have, n.Preference.Source, required))
	}
	return field.Invalid(guest, have, fmt.Sprintf("%s requires %s: raise it, or choose another preference", n.Preference.Source, required))
}

func cpuRequirement(n need, explicit *v1.VirtualMachineInstance) *field.Error {
	want := n.Preference.Spec.Requirements.CPU
	if want == nil {
		return nil
	}
	offer := offered(n.Set, explicit)
	if offer.count >= want.Guest {
		return nil
	}
	at := n.path.Child("template", "spec", "domain", "cpu")
	if n.written.CPU != nil && offer.field != "" {
		at = at.Child(offer.field)
	}
	return n.missed(at, offer.count, fmt.Sprintf("%d %s", want.Guest, offer.what))
}

func memoryRequirement(n need, explicit *v1.VirtualMachineInstance) *field.Error {
	want := n.Preference.Spec.Requirements.Memory
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
	at := n.path.Child("template", "spec", "domain", "memory")
	if n.written.Memory != nil {
		at = at.Child("guest")
	}
	return n.missed(at, have.String(), want.Guest.String()+" of memory")
}

// architectureRequirement is about the guest whatever its size: sizes have no architecture.
func architectureRequirement(n need, explicit *v1.VirtualMachineInstance) *field.Error {
	want := n.Preference.Spec.Requirements.Architecture
	if want == nil || *want == explicit.Spec.Architecture {
		return nil
	}
	return field.Invalid(n.path.Child("template", "spec", "architecture"), explicit.Spec.Architecture,
		fmt.Sprintf("%s requires '%s': change it, or choose another preference", n.Preference.Source, *want))
}

// Unspread returns an error when the preference cannot spread the vCPUs of the size. It needs no guest, so that it is told
// together with conflicts. path is as for Requirements, which includes it.
func Unspread(set Set, path *field.Path) field.ErrorList {
	if set.Preference == nil || set.Instancetype == nil {
		return nil
	}
	count := set.Instancetype.Spec.CPU.Guest
	unit := unspread(count, set.Preference)
	if unit == "" {
		return nil
	}
	return field.ErrorList{field.Invalid(path, set.Preference.Name,
		fmt.Sprintf("%s spreads vCPUs in units of %s, and %s has %d: choose an instancetype with a multiple of that",
			set.Preference.Source, unit, set.Instancetype.Source, count))}
}

// unspread is the unit that a number of vCPUs is no multiple of, or empty. A single vCPU is in no need of spreading.
func unspread(vcpus uint32, p *Preference) string {
	if vcpus <= 1 || topologyOf(p) != v1beta1.Spread {
		return ""
	}
	if divisor := spreadOf(p).divisor(); vcpus%divisor != 0 {
		return fmt.Sprint(divisor)
	}
	return ""
}

// offer is what counts towards a requirement of vCPUs.
type offer struct {
	what  string
	count uint32
	// field of domain.cpu that holds the count, empty for a product of several.
	field string
}

// offered counts all vCPUs of a size. A guest that arranges its own must offer them in the preferred dimension, since a licence
// or a driver may count only that.
func offered(set Set, explicit *v1.VirtualMachineInstance) offer {
	if set.Instancetype != nil {
		return offer{what: "vCPUs", count: set.Instancetype.Spec.CPU.Guest}
	}
	sockets, cores, threads := vm.Topology(explicit.Spec.Domain.CPU)
	switch topologyOf(set.Preference) {
	case v1beta1.Cores:
		return offer{"cores", cores, "cores"}
	case v1beta1.Threads:
		return offer{"threads", threads, "threads"}
	case v1beta1.Any:
		return offer{"vCPUs", sockets * cores * threads, ""}
	case v1beta1.Spread:
		switch spreadOf(set.Preference).across {
		case v1beta1.SpreadAcrossCoresThreads:
			return offer{"vCPUs as cores x threads", cores * threads, ""}
		case v1beta1.SpreadAcrossSocketsCoresThreads:
			return offer{"vCPUs as sockets x cores x threads", sockets * cores * threads, ""}
		}
		return offer{"vCPUs as sockets x cores", sockets * cores, ""}
	}
	return offer{"sockets", sockets, "sockets"}
}
