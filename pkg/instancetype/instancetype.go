// Package instancetype says what a size (instancetype) and a preference mean for a guest: which fields of the guest
// conflict, which requirements it misses, and what is filled in. It never reads a cluster.
package instancetype

import (
	"fmt"

	"github.com/kilnvm/kiln/pkg/internal/filled"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
	"kubevirt.io/api/instancetype/v1beta1"
)

// Set is the size and the preference of one guest, already resolved. Either may be nil.
type Set struct {
	Instancetype *Instancetype
	Preference   *Preference
	// Architecture is that of the images which the guest's disks are made of, if they tell it. It is a default before the cluster's.
	Architecture string
}

// Source says where a spec came from, for messages, annotations and provenance.
type Source struct {
	// Kind is the canonical kind, e.g. VirtualMachineClusterInstancetype.
	Kind, Name string
	// Revision is the ControllerRevision that holds it; empty when it was read live.
	Revision string
}

func (s Source) String() string { return fmt.Sprintf("%s '%s'", s.Kind, s.Name) }

// Instancetype is a size.
type Instancetype struct {
	Source
	Spec v1beta1.VirtualMachineInstancetypeSpec
}

// Preference is advice for a guest's hardware.
type Preference struct {
	Source
	Spec v1beta1.VirtualMachinePreferenceSpec
}

// area is one field area of a size. What is applied and never claimed is visible in review.
type area struct {
	// claims are the fields that the size owns, with what the guest has in them.
	claims func(Set, *v1.VirtualMachineInstance, *field.Path) []claim
	apply  func(Set, *v1.VirtualMachineInstance, *filled.Log)
}

// areas in the order in which their conflicts are reported.
var areas = []area{
	{claims: placementClaims, apply: applyPlacement},
	{claims: cpuClaims, apply: applyCPU},
	{claims: memoryClaims, apply: applyMemory},
	{claims: ioThreadClaims, apply: applyIOThreads},
	{claims: securityClaims, apply: applySecurity},
	{claims: hostDeviceClaims, apply: applyHostDevices},
	{claims: annotationClaims, apply: applyAnnotations},
}

// advice is what a preference fills, in this order; each fills only what is still unset.
var advice = []func(*Preference, *v1.VirtualMachineInstance, *filled.Log){
	preferCPUFeatures,
	preferDevices,
	preferDisks,
	preferNetworks,
	preferHostDevices,
	preferFeatures,
	preferFirmware,
	preferMachine,
	preferClock,
	preferPlacement,
	preferSecurity,
	preferAnnotations,
}

// claim is a field that the size sets.
type claim struct {
	path *field.Path
	// given is what the guest has, size what the size sets; given is nil when the guest leaves the field to the size.
	given, size any
	// same says that the guest has just what the size would set, so that it may have come from there.
	same bool
}

// Conflicts returns every field of the guest that the size also sets. It is the strict form for a VM's template: any value
// is a conflict, so that two answers to one question never stand in one manifest. path is the object that holds metadata
// and spec: nil for a VMI, spec.template for a VM.
func Conflicts(set Set, vmi *v1.VirtualMachineInstance, path *field.Path) field.ErrorList {
	return conflicts(set, vmi, path, func(c claim) bool { return true })
}

// Differences is the form for a VMI: only a value that differs from what the size would set is a conflict, since an equal
// one means that the size was applied before.
func Differences(set Set, vmi *v1.VirtualMachineInstance, path *field.Path) field.ErrorList {
	return conflicts(set, vmi, path, func(c claim) bool { return !c.same })
}

func conflicts(set Set, vmi *v1.VirtualMachineInstance, path *field.Path, counts func(claim) bool) (errs field.ErrorList) {
	if set.Instancetype == nil {
		return nil
	}
	for _, a := range areas {
		for _, c := range a.claims(set, vmi, path) {
			if c.given != nil && counts(c) {
				errs = append(errs, c.conflict(set.Instancetype.Source))
			}
		}
	}
	return errs
}

func (c claim) conflict(source Source) *field.Error {
	sets := "sets it"
	if c.size != nil {
		sets = fmt.Sprintf("sets '%v'", c.size)
	}
	return field.Invalid(c.path, c.given, fmt.Sprintf("conflicts with %s, which %s: remove the field, or choose an instancetype that fits", source, sets))
}

// Apply fills size, then preference, into the guest. What is set stays. The set is neither changed nor aliased. Conflicts
// or Differences must have been empty.
func Apply(set Set, vmi *v1.VirtualMachineInstance) {
	ApplyInstancetype(set, vmi, nil)
	ApplyPreference(set, vmi, nil)
}

// ApplyInstancetype is the first half of Apply. It needs the preference too, which says how the size's vCPUs are arranged.
func ApplyInstancetype(set Set, vmi *v1.VirtualMachineInstance, log *filled.Log) {
	if set.Instancetype != nil {
		for _, a := range areas {
			a.apply(set, vmi, log)
		}
	}
}

// ApplyPreference is the second half of Apply.
func ApplyPreference(set Set, vmi *v1.VirtualMachineInstance, log *filled.Log) {
	if set.Preference != nil {
		for _, prefer := range advice {
			prefer(set.Preference, vmi, log)
		}
	}
}

// fill sets a pointer that is nil to a copy of the given one.
func fill[T any](log *filled.Log, set **T, from *T) {
	if *set == nil && from != nil {
		copied := *from
		*set = &copied
		log.Note(set, from)
	}
}

// fillCopy is fill for objects that hold pointers themselves.
func fillCopy[T any, From interface {
	*T
	DeepCopy() *T
}](log *filled.Log, set **T, from From) {
	if *set == nil && from != nil {
		*set = from.DeepCopy()
		log.Note(set, (*T)(from))
	}
}

// put sets a field that has nothing inside.
func put[T any](log *filled.Log, set *T, value T) {
	*set = value
	log.Note(set, nil)
}

// fillText sets a string that is empty.
func fillText[T ~string](log *filled.Log, set *T, from T) {
	if *set == "" && from != "" {
		put(log, set, from)
	}
}
