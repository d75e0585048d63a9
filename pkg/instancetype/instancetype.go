// Package instancetype applies an instancetype and a preference to a VMI: it returns the fields that conflict with the instancetype and
// the requirements of the preference that are missed, and fills in the rest. It never reads a cluster. It reproduces KubeVirt's packages
// pkg/instancetype/apply, pkg/instancetype/preference/apply and pkg/instancetype/preference/requirements; docs/deviations.md lists the
// differences.
package instancetype

import (
	"fmt"
	"strings"

	"github.com/kilnvm/kiln/pkg/internal/filled"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
	"kubevirt.io/api/instancetype/v1beta1"
)

// Set is the instancetype and the preference of one VMI, already resolved. Either may be nil.
type Set struct {
	Instancetype *Instancetype
	Preference   *Preference
	// Architecture is the value of label template.kubevirt.io/architecture of a DataSource from which a disk is made, or empty. It is
	// used before the cluster's defaultArchitecture.
	Architecture string
}

// Source is where a spec came from, for messages, annotations and provenance.
type Source struct {
	// Kind is the canonical kind, e.g. VirtualMachineClusterInstancetype.
	Kind, Name string
	// Revision is the name of the ControllerRevision that holds the spec, or empty when the object was read live.
	Revision string
}

// String returns "Kind 'name'", as messages name the object.
func (s Source) String() string { return fmt.Sprintf("%s '%s'", s.Kind, s.Name) }

// Instancetype is a VirtualMachineInstancetype or VirtualMachineClusterInstancetype: vCPUs, memory and what else a VM is given.
type Instancetype struct {
	Source
	Spec v1beta1.VirtualMachineInstancetypeSpec
}

// Preference is a VirtualMachinePreference or VirtualMachineClusterPreference: values for what the user left unset, and requirements.
type Preference struct {
	Source
	Spec v1beta1.VirtualMachinePreferenceSpec
}

// instancetypeArea is one field area of an instancetype. claims and apply stand side by side, so that a field that is applied and cannot conflict
// shows in review. Trap: KubeVirt applies maxSockets without a conflict, and overwrites the user's.
type instancetypeArea struct {
	// claims returns the fields that the instancetype owns, with what the VMI has in them.
	claims func(Set, *v1.VirtualMachineInstance) []claim
	apply  func(Set, *v1.VirtualMachineInstance, *filled.Log)
}

// areas is the order in which conflicts are reported and fields applied. No area reads what another one fills.
var areas = []instancetypeArea{
	{claims: schedulingClaims, apply: applyScheduling},
	{claims: cpuClaims, apply: applyCPU},
	{claims: memoryClaims, apply: applyMemory},
	{claims: ioThreadClaims, apply: applyIOThreads},
	{claims: securityClaims, apply: applySecurity},
	{claims: hostDeviceClaims, apply: applyHostDevices},
	{claims: annotationClaims, apply: applyAnnotations},
}

// preferences are the functions that apply a preference. Each fills only what is still unset. No function reads what another one fills.
var preferences = []func(*Preference, *v1.VirtualMachineInstance, *filled.Log){
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

// claim is a field that the instancetype sets.
type claim struct {
	// field is its name below the object that holds metadata and spec, such as 'spec.domain.cpu', and key the one of a map. Most VMs have no conflict: no
	// path is built for them.
	field, key string
	// given is the value of the VMI, nil where the field is unset. wanted is the instancetype's, nil where it does not fit into a message.
	given, wanted any
	// same reports that given equals wanted, so that it may be the result of an earlier application.
	same bool
}

// Conflicts returns an error of type Invalid for every field of the template that the instancetype also sets, even to an equal value: a
// manifest must not give one value twice, because only one of them would be edited. It is KubeVirt's rule for VMs. path is the object
// that holds metadata and spec: spec.template for a VM. Without an instancetype there are no errors.
func Conflicts(set Set, vmi *v1.VirtualMachineInstance, path *field.Path) field.ErrorList {
	return conflictsOf(set, vmi, path, func(c claim) bool { return true })
}

// Differences returns an error of type Invalid for every field of a VMI that differs from what the instancetype sets. An equal value is
// none: it is there because the instancetype was applied before, by this webhook in a reinvocation or by KubeVirt's controller. path is
// as for Conflicts, nil for a VMI.
func Differences(set Set, vmi *v1.VirtualMachineInstance, path *field.Path) field.ErrorList {
	return conflictsOf(set, vmi, path, func(c claim) bool { return !c.same })
}

// Owned returns the paths of the fields of a VMI that Conflicts would report.
func Owned(set Set, vmi *v1.VirtualMachineInstance) (paths []string) {
	if set.Instancetype == nil {
		return nil
	}
	for _, a := range areas {
		for _, c := range a.claims(set, vmi) {
			if c.given != nil {
				paths = append(paths, c.pathBelow(nil).String())
			}
		}
	}
	return paths
}

func conflictsOf(set Set, vmi *v1.VirtualMachineInstance, path *field.Path, counts func(claim) bool) (errs field.ErrorList) {
	if set.Instancetype == nil {
		return nil
	}
	for _, a := range areas {
		for _, c := range a.claims(set, vmi) {
			if c.given != nil && counts(c) {
				errs = append(errs, c.asError(set.Instancetype.Source, path))
			}
		}
	}
	return errs
}

// pathBelow is the field below an object.
func (c claim) pathBelow(object *field.Path) *field.Path {
	names := strings.Split(c.field, ".")
	at := object.Child(names[0], names[1:]...)
	if c.key != "" {
		at = at.Key(c.key)
	}
	return at
}

func (c claim) asError(source Source, object *field.Path) *field.Error {
	sets := "sets it"
	if c.wanted != nil {
		sets = fmt.Sprintf("sets '%v'", c.wanted)
	}
	return field.Invalid(c.pathBelow(object), c.given,
		fmt.Sprintf("conflicts with %s, which %s: remove the field, or choose an instancetype that fits", source, sets))
}

// Apply applies the instancetype, then the preference (ApplyToVMI). Conflicts or Differences must have returned no errors before. The VMI
// shares no memory with the set afterwards.
func Apply(set Set, vmi *v1.VirtualMachineInstance) {
	ApplyInstancetype(set, vmi, nil)
	ApplyPreference(set, vmi, nil)
}

// ApplyInstancetype is the first half of Apply. It reads the preference too: preferredCPUTopology arranges the vCPUs of the instancetype. A
// log, if not nil, notes the fields that are filled.
func ApplyInstancetype(set Set, vmi *v1.VirtualMachineInstance, log *filled.Log) {
	if set.Instancetype != nil {
		for _, a := range areas {
			a.apply(set, vmi, log)
		}
	}
}

// ApplyPreference is the second half of Apply. It fills only what is unset. log is as for ApplyInstancetype.
func ApplyPreference(set Set, vmi *v1.VirtualMachineInstance, log *filled.Log) {
	if set.Preference != nil {
		for _, prefer := range preferences {
			prefer(set.Preference, vmi, log)
		}
	}
}

// fillPointer sets a pointer that is nil to a copy of the given one.
func fillPointer[T any](log *filled.Log, set **T, from *T) {
	if *set == nil && from != nil {
		copied := *from
		*set = &copied
		log.Note(set, from)
	}
}

// fillCopy is fill for objects that hold pointers themselves. Trap: KubeVirt shares some of them with its cached objects.
func fillCopy[T any, From interface {
	*T
	DeepCopy() *T
}](log *filled.Log, set **T, from From) {
	if *set == nil && from != nil {
		*set = from.DeepCopy()
		log.Note(set, (*T)(from))
	}
}

// putValue sets a field, also one that is set, and notes the field as one leaf.
func putValue[T any](log *filled.Log, set *T, value T) {
	*set = value
	log.Note(set, nil)
}

// fillText sets a string that is empty.
func fillText[T ~string](log *filled.Log, set *T, from T) {
	if *set == "" && from != "" {
		putValue(log, set, from)
	}
}
