package instancetype

import (
	"fmt"

	"github.com/kilnvm/kiln/pkg/internal/vm"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
	"kubevirt.io/api/instancetype/v1beta1"
)

// Requirements returns what the preference requires and the explicit guest does not offer, all at once. path is the user's
// reference to the preference, which is what can be changed, or the size with it.
func Requirements(set Set, vmi *v1.VirtualMachineInstance, path *field.Path) (errs field.ErrorList) {
	if set.Preference == nil {
		return nil
	}
	errs = Unspread(set, path)
	miss := func(format string, args ...any) {
		errs = append(errs, field.Invalid(path, set.Preference.Name, fmt.Sprintf(format, args...)))
	}
	want := set.Preference.Spec.Requirements
	if want == nil {
		return errs
	}
	if want.CPU != nil {
		if what, have := vcpus(set, vmi); have < want.CPU.Guest {
			miss("%s requires %d vCPUs, and the guest has %d %s: give it more", set.Preference.Source, want.CPU.Guest, have, what)
		}
	}
	if want.Memory != nil {
		if memory := vmi.Spec.Domain.Memory; memory == nil || memory.Guest == nil {
			miss("%s requires %s of memory, and the guest has none", set.Preference.Source, want.Memory.Guest.String())
		} else if memory.Guest.Cmp(want.Memory.Guest) < 0 {
			miss("%s requires %s of memory, and the guest has %s: give it more", set.Preference.Source, want.Memory.Guest.String(), memory.Guest.String())
		}
	}
	if want.Architecture != nil && *want.Architecture != vmi.Spec.Architecture {
		miss("%s requires architecture '%s', and the guest has '%s'", set.Preference.Source, *want.Architecture, vmi.Spec.Architecture)
	}
	return errs
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
	return field.ErrorList{field.Invalid(path, set.Preference.Name, fmt.Sprintf("%s spreads vCPUs in units of %s, and %s has %d: choose an instancetype with a multiple of that",
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

// vcpus is what counts towards the requirement. With a size it is all of them; a guest that arranges its own must offer them
// in the preferred dimension, since a licence or a driver may count only that.
func vcpus(set Set, vmi *v1.VirtualMachineInstance) (what string, count uint32) {
	if set.Instancetype != nil {
		return "vCPUs", set.Instancetype.Spec.CPU.Guest
	}
	sockets, cores, threads := vm.Topology(vmi.Spec.Domain.CPU)
	switch topologyOf(set.Preference) {
	case v1beta1.Cores:
		return "cores", cores
	case v1beta1.Threads:
		return "threads", threads
	case v1beta1.Any:
		return "vCPUs", sockets * cores * threads
	case v1beta1.Spread:
		switch spreadOf(set.Preference).across {
		case v1beta1.SpreadAcrossCoresThreads:
			return "cores x threads", cores * threads
		case v1beta1.SpreadAcrossSocketsCoresThreads:
			return "sockets x cores x threads", sockets * cores * threads
		}
		return "sockets x cores", sockets * cores
	}
	return "sockets", sockets
}
