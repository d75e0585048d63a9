package pod

import (
	"fmt"
	"slices"
	"strings"

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
	// found returns the positions at which a VMI has the field: the indexes of elements if Field has a list, else 0. It allocates nothing for a VMI without the
	// field, because admission asks for each VM.
	found func(guest) []int
}

// pathAt returns the path of the field at a position that found has returned.
func (e Effect) pathAt(spec *field.Path, position int) *field.Path {
	list, below, inList := strings.Cut(e.Field, "[]")
	at := childNamed(spec, list)
	if inList {
		at = at.Index(position)
	}
	return childNamed(at, strings.TrimPrefix(below, "."))
}

// childNamed returns the path of a field below another one. names are joined by dots, and may be empty.
func childNamed(at *field.Path, names string) *field.Path {
	if names == "" {
		return at
	}
	for name := range strings.SplitSeq(names, ".") {
		at = at.Child(name)
	}
	return at
}

// Effects returns all fields that pods do not support, ordered by areas.
func Effects() []Effect { return slices.Clone(effects) }

var effects = slices.Concat(cpuEffects, memoryEffects, firmwareEffects, diskEffects, networkEffects, virtualFunctionEffects,
	hostDeviceEffects, deviceEffects, securityEffects, schedulingEffects)

// NoEffect is a field of a VMI that has no effect in a pod.
type NoEffect struct {
	// Path starts at the VMI.
	Path *field.Path
	// Reason completes the sentence that begins with the path.
	Reason string
}

// Judge returns the fields of an explicit VMI because of which no pod can start the guest, whatever the administrator allows on the nodes, and the fields that
// have no effect in a pod. It runs before there is a pod, so it knows neither claims nor NetworkAttachmentDefinitions. stateClass is the storage class of
// states that outlive a pod, or empty.
func Judge(vmi *v1.VirtualMachineInstance, stateClass string) (refused field.ErrorList, without []NoEffect) {
	path := field.NewPath("spec")
	in := Input{VMI: vmi, NetworkResources: map[string]string{}, Settings: Settings{
		Network: Passt, Taps: true, LockedMemory: true, StateClass: stateClass,
	}}
	for i, network := range vmi.Spec.Networks {
		if network.Multus != nil { // each has a resource of its own, as far as is known
			in.NetworkResources[network.Multus.NetworkName] = fmt.Sprintf("example.org/network-%d", i)
		}
	}
	return applyEffects(guest{Input: in, spec: &vmi.Spec, path: path})
}

// applyEffects returns the fields of a VMI that are in the table, in the order of the table, then of positions.
func applyEffects(g guest) (refused field.ErrorList, without []NoEffect) {
	for i := range effects {
		e := &effects[i]
		for _, position := range e.found(g) {
			if at := e.pathAt(g.path, position); e.Verdict == Refused {
				refused = append(refused, field.Forbidden(at, e.Reason).WithOrigin("runtime/pod"))
			} else {
				without = append(without, NoEffect{at, e.Reason})
			}
		}
	}
	return refused, without
}

// once is the result of Effect.found for a field outside of lists.
var once = []int{0}

// onlyIf returns the position of a field outside of lists if a condition holds, else none.
func onlyIf(holds bool) []int {
	if !holds {
		return nil
	}
	return once
}

// indexesOf returns the indexes of the elements of a list for which a condition holds.
func indexesOf[T any](list []T, holds func(*T) bool) (found []int) {
	for i := range list {
		if holds(&list[i]) {
			found = append(found, i)
		}
	}
	return found
}
