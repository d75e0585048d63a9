// Package validate judges specs: independent rules, all errors at once, stable order, real paths.
//
// A rule takes the spec as it stands, so that it works on an explicit VMI as well as on a sparse one: what is absent is
// no error unless no VMI can start without it. Every path exists in the schema, its indices are in bounds, and its
// parent is in the object that was judged.
//
// A function of KubeVirt that a comment names, such as validateNUMA, belongs to its admitters: pkg/virt-api/webhooks,
// pkg/network/admitter, pkg/storage/admitters, pkg/dra/admitter and pkg/instancetype. The rule has its verdict, at the real path of
// the field, which KubeVirt's path often is not. Where a comment says that KubeVirt accepts something, the VMI would fail later:
// libvirt, QEMU, the kubelet or KubeVirt's own launcher would refuse it. docs/reference/deviations.md lists these cases for users.
package validate

import (
	"slices"
	"strings"

	"github.com/kilnvm/kiln/pkg/config"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// Guest judges the spec and metadata of a VMI, or of a VM's template as a VMI. path is the path of the object with metadata and spec: nil for a VMI,
// spec.template for a VM. It returns at most MostErrors errors in the order of the rules; package admit sorts them by field. The Origin of an error is the name
// of its rule.
func Guest(vmi *v1.VirtualMachineInstance, limits config.Limits, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	spec := path.Child("spec")
	for i := range guestRules {
		// What the other rules would add is cut off, so that they need not judge a hostile object.
		if errs = append(errs, ofVersion(guestRules[i].judge(&vmi.Spec, limits, spec), limits.Version)...); len(errs) >= MostErrors {
			return Most(withoutRepeated(errs))
		}
	}
	for i := range metadataRules {
		errs = append(errs, ofVersion(metadataRules[i].judge(vmi, limits, path), limits.Version)...)
	}
	return Most(withoutRepeated(errs))
}

// Growth judges memory.maxGuest of a VM. path is as for Guest. Stage 1 fills maxGuest only if memory can grow, so that only a maxGuest of the owner has errors.
func Growth(vmi *v1.VirtualMachineInstance, limits config.Limits, path *field.Path) (errs field.ErrorList) {
	for _, rule := range growthRules {
		errs = append(errs, rule.judge(vmi, limits, path)...)
	}
	return errs
}

// supported is NotSupported unless the value is one of those allowed.
func supported[T ~string](path *field.Path, value T, allowed ...T) field.ErrorList {
	if slices.Contains(allowed, value) {
		return nil
	}
	return field.ErrorList{field.NotSupported(path, value, allowed)}
}

// below is the path of an element of a list, or of a field of it. In loops it is called only when there is a mistake: most
// objects have none, and paths cost more than all comparisons together.
func below(list *field.Path, i int, names ...string) *field.Path {
	if at := list.Index(i); len(names) > 0 {
		return at.Child(names[0], names[1:]...)
	}
	return list.Index(i)
}

// places is the path of an element of a list, or of a field of it. As below, it is called only when there is a mistake.
type places func(i int, names ...string) *field.Path

// gated is Forbidden unless the feature gate is on.
// Gates have KubeVirt's names, so that a configuration written for KubeVirt works unchanged.
func gated(limits config.Limits, gate string, path *field.Path) field.ErrorList {
	if limits.Gates.Enabled(gate) {
		return nil
	}
	return field.ErrorList{field.Forbidden(path, "needs feature gate '"+gate+"', which is off in this cluster")}
}

// named turns the findings of a name check of apimachinery into errors.
func named(path *field.Path, value string, check func(string) []string) field.ErrorList {
	if findings := check(value); len(findings) > 0 {
		return field.ErrorList{field.Invalid(path, value, strings.Join(findings, "; "))}
	}
	return nil
}

// Written judges a VMI as the user wrote it, while its instancetype or preference is not known. It returns the errors that neither of them
// can mend. path is as for Guest.
func Written(vmi *v1.VirtualMachineInstance, limits config.Limits, path *field.Path) field.ErrorList {
	return slices.DeleteFunc(Guest(vmi, limits, path), func(err *field.Error) bool {
		if vmi.Spec.Architecture != "" && strings.HasPrefix(err.Origin, "machine/") {
			return false // a machine type that is written fits the architecture that is written, or never will
		}
		return declared[err.Origin].MendedBy&byCompletion != 0
	})
}

// Draft is a VMI whose instancetype or preference may not be known: the object does not exist yet, or could not be read.
type Draft struct {
	// Written is the VMI as the user wrote it, with the instancetype or the preference if one of them is known; nil if both are known.
	Written *v1.VirtualMachineInstance
	// Explicit is the VMI with all defaults.
	Explicit *v1.VirtualMachineInstance
	// May has the objects that are not known, and may therefore mend errors.
	May struct{ Instancetype, Preference bool }
}

// Known judges a draft of the VMI of a VM. It returns the errors that the unknown instancetype or preference cannot mend: the errors of Written, and the
// errors of the explicit VMI by rules that do not wait for it (Rule.MendedBy). path is as for Guest.
func Known(draft Draft, limits config.Limits, path *field.Path) field.ErrorList {
	errs := append(Guest(draft.Explicit, limits, path), Growth(draft.Explicit, limits, path)...)
	if draft.Written == nil {
		return errs
	}
	var mender Mender
	if draft.May.Instancetype {
		mender |= byInstancetype
	}
	if draft.May.Preference {
		mender |= byPreference
	}
	known := Written(draft.Written, limits, path)
	for _, err := range errs {
		if declared[err.Origin].MendedBy&mender == 0 {
			known = append(known, err)
		}
	}
	return Most(withoutRepeated(known))
}

// withoutRepeated drops errors that repeat rule, field and text of an earlier one. Written and Explicit of a draft have many in common.
func withoutRepeated(errs field.ErrorList) field.ErrorList {
	if len(errs) < 2 {
		return errs
	}
	type finding struct{ at, rule, detail string }
	seen := make(map[finding]bool, len(errs))
	return slices.DeleteFunc(errs, func(err *field.Error) bool {
		f := finding{err.Field, err.Origin, err.Detail}
		twice := seen[f]
		seen[f] = true
		return twice
	})
}
