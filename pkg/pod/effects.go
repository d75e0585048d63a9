package pod

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// Verdict is how pods treat a VMI with a field that they do not support.
type Verdict string

// Verdicts. A field is refused only if the guest would be another machine without it, or would not start.
const (
	Warned  Verdict = "warned of"
	Refused Verdict = "refused"
)

// Effect is a field that pods do not support, or only with some settings.
type Effect struct {
	// Field is the path below spec of a VMI, with [] for any position.
	Field   string
	Verdict Verdict
	// Reason completes the sentence that begins with the path.
	Reason string
	// found returns the paths at which a VMI has the field.
	found func(guest) []*field.Path
}

// Effects returns all fields that pods do not support, ordered by areas.
func Effects() []Effect {
	return slices.Concat(cpuEffects, memoryEffects, firmwareEffects, diskEffects, networkEffects, virtualFunctionEffects,
		hostDeviceEffects, deviceEffects, securityEffects, schedulingEffects)
}

// Judge returns the fields of an explicit VMI because of which no pod can start the guest, whatever the administrator allows on the nodes. It runs before there
// is a pod, so it knows neither claims nor NetworkAttachmentDefinitions. stateClass is vmStateStorageClass of KubeVirt's configuration, or empty.
func Judge(vmi *v1.VirtualMachineInstance, stateClass string) field.ErrorList {
	path := field.NewPath("spec")
	in := Input{VMI: vmi, NetworkResources: map[string]string{}, Settings: Settings{
		Network: Passt, Taps: true, LockedMemory: true, StateClass: stateClass,
	}}
	for i, network := range vmi.Spec.Networks {
		if network.Multus != nil { // each has a resource of its own, as far as is known
			in.NetworkResources[network.Multus.NetworkName] = fmt.Sprintf("example.org/network-%d", i)
		}
	}
	_, errs := applyEffects(guest{Input: in, spec: &vmi.Spec, path: path, domain: path.Child("domain")})
	return errs
}

// applyEffects returns warnings and errors for the fields of a VMI that are in the table, in the order of the table, then of positions.
func applyEffects(g guest) (warnings []string, errs field.ErrorList) {
	for _, e := range Effects() {
		for _, at := range e.found(g) {
			if e.Verdict == Refused {
				errs = append(errs, field.Forbidden(at, e.Reason))
			} else {
				warnings = append(warnings, at.String()+" "+e.Reason)
			}
		}
	}
	return warnings, errs
}

// pathIf returns a list with the path if a condition holds, else nil.
func pathIf(at *field.Path, holds bool) []*field.Path {
	if !holds {
		return nil
	}
	return []*field.Path{at}
}

// pathsOf returns the paths of the elements of a list for which a condition holds, followed by names of fields below them.
func pathsOf[T any](list []T, at *field.Path, holds func(*T) bool, names ...string) (found []*field.Path) {
	for i := range list {
		if holds(&list[i]) {
			element := at.Index(i)
			for _, name := range names {
				element = element.Child(name)
			}
			found = append(found, element)
		}
	}
	return found
}
