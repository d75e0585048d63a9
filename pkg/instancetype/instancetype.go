// Package instancetype applies an instancetype and a preference to a VMI: it returns the fields that conflict with the instancetype and the requirements of the
// preference that are not met, and fills the other fields. It never reads a cluster. It reproduces KubeVirt's packages pkg/instancetype/apply,
// pkg/instancetype/preference/apply and pkg/instancetype/preference/requirements; docs/reference/deviations.md lists the differences.
package instancetype

import (
	"fmt"
	"strings"

	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/internal/filled"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
	"kubevirt.io/api/instancetype/v1beta1"
)

// Set is the resolved instancetype and preference of one VMI. Either may be nil.
type Set struct {
	Instancetype *Instancetype
	Preference   *Preference
	// Architecture is the value of label template.kubevirt.io/architecture of a DataSource from which a disk is made, or empty. It precedes the cluster's
	// defaultArchitecture.
	Architecture string
}

// Source is the object from which a spec was read, for messages, annotations and provenance.
type Source struct {
	// Kind is the canonical kind, such as VirtualMachineClusterInstancetype.
	Kind, Name string
	// Revision is the name of the ControllerRevision from which the spec was read; empty if it was read from the object itself.
	Revision string
}

// String returns the object as messages name it: "Kind 'name'".
func (s Source) String() string { return fmt.Sprintf("%s '%s'", s.Kind, s.Name) }

// Instancetype is a VirtualMachineInstancetype or VirtualMachineClusterInstancetype: vCPUs, memory and other fields that a VM may then not set.
type Instancetype struct {
	Source
	Spec v1beta1.VirtualMachineInstancetypeSpec
}

// Preference is a VirtualMachinePreference or VirtualMachineClusterPreference: values for fields that the user left unset, and requirements.
type Preference struct {
	Source
	Spec v1beta1.VirtualMachinePreferenceSpec
}

// instancetypeArea is one field area of an instancetype. fields and apply stand side by side, so that a reviewer sees a field that is applied and cannot
// conflict. Trap: KubeVirt applies maxSockets without a conflict, and overwrites the user's.
type instancetypeArea struct {
	// fields returns the fields that the instancetype owns, with what the VMI has in them.
	fields func(Set, *v1.VirtualMachineInstance) []ownedField
	apply  func(Set, *v1.VirtualMachineInstance, *filled.Log)
}

// areas are in the order in which conflicts are reported and fields applied. No area reads what another area fills.
var areas = []instancetypeArea{
	{fields: ownedSchedulingFields, apply: applyScheduling},
	{fields: ownedCPUFields, apply: applyCPU},
	{fields: ownedMemoryFields, apply: applyMemory},
	{fields: ownedIOThreadFields, apply: applyIOThreads},
	{fields: ownedSecurityFields, apply: applySecurity},
	{fields: ownedHostDeviceFields, apply: applyHostDevices},
	{fields: ownedAnnotationFields, apply: applyAnnotations},
}

// preferences are the functions that apply a preference. Each fills only unset fields. No function reads what another function fills.
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

// ownedField is a field that the instancetype sets.
type ownedField struct {
	// field is the path of the field below the object with metadata and spec, such as 'spec.domain.cpu'. key is the key of an element of a map. They are texts
	// because most VMs have no conflict and need no field.Path.
	field, key string
	// given is the value in the VMI, nil if the field is unset. wanted is the instancetype's value, nil if it is too long for a message.
	given, wanted any
	// same means that given equals wanted: the instancetype may have been applied before.
	same bool
}

// Conflicts returns an error of type Invalid for every field of the template that the instancetype also sets, even to an equal value: a manifest must not have
// one value twice, because a user would edit only one of them. It is KubeVirt's rule for VMs. path is the path of the object with metadata and spec:
// spec.template for a VM. Without an instancetype there are no errors.
func Conflicts(set Set, vmi *v1.VirtualMachineInstance, path *field.Path) field.ErrorList {
	return conflictsOf(set, vmi, path, func(f ownedField) bool { return true })
}

// Differences returns an error of type Invalid for every field of a VMI that differs from what the instancetype sets. An equal value is no error, because the
// instancetype may have been applied before, by this webhook in an earlier invocation or by KubeVirt's controller. path is as for Conflicts, nil for a VMI.
func Differences(set Set, vmi *v1.VirtualMachineInstance, path *field.Path) field.ErrorList {
	return conflictsOf(set, vmi, path, func(f ownedField) bool { return !f.same })
}

// Owned returns the paths of the fields of a VMI that Conflicts would report.
func Owned(set Set, vmi *v1.VirtualMachineInstance) (paths []string) {
	if set.Instancetype == nil {
		return nil
	}
	for _, a := range areas {
		for _, f := range a.fields(set, vmi) {
			if f.given != nil {
				paths = append(paths, f.pathBelow(nil).String())
			}
		}
	}
	return paths
}

func conflictsOf(set Set, vmi *v1.VirtualMachineInstance, path *field.Path, counts func(ownedField) bool) (errs field.ErrorList) {
	if set.Instancetype == nil {
		return nil
	}
	for _, a := range areas {
		for _, f := range a.fields(set, vmi) {
			if f.given != nil && counts(f) {
				errs = append(errs, f.asError(set.Instancetype.Source, path))
			}
		}
	}
	return errs
}

// pathBelow returns the path of the field below the path of an object.
func (f ownedField) pathBelow(object *field.Path) *field.Path {
	names := strings.Split(f.field, ".")
	at := object.Child(names[0], names[1:]...)
	if f.key != "" {
		at = at.Key(f.key)
	}
	return at
}

func (f ownedField) asError(source Source, object *field.Path) *field.Error {
	sets := "sets it"
	if f.wanted != nil {
		sets = fmt.Sprintf("sets '%v'", f.wanted)
	}
	return field.Invalid(f.pathBelow(object), f.given,
		fmt.Sprintf("conflicts with %s, which %s: remove the field, or choose an instancetype that fits", source, sets))
}

// Apply applies the instancetype, then the preference as a version of KubeVirt does (ApplyToVMI). Conflicts or Differences must have returned no errors before.
// Afterwards the VMI shares no memory with the set.
func Apply(set Set, version config.Version, vmi *v1.VirtualMachineInstance) {
	ApplyInstancetype(set, vmi, nil)
	ApplyPreference(set, version, vmi, nil)
}

// ApplyInstancetype is the first half of Apply. It reads the preference, too: preferredCPUTopology arranges the vCPUs of the instancetype. log notes the fields
// that are filled; it may be nil.
func ApplyInstancetype(set Set, vmi *v1.VirtualMachineInstance, log *filled.Log) {
	if set.Instancetype != nil {
		for _, a := range areas {
			a.apply(set, vmi, log)
		}
	}
}

// ApplyPreference is the second half of Apply. It fills only unset fields. log is as for ApplyInstancetype.
func ApplyPreference(set Set, version config.Version, vmi *v1.VirtualMachineInstance, log *filled.Log) {
	if set.Preference == nil {
		return
	}
	preference := set.Preference.knownTo(version, vmi)
	for _, prefer := range preferences {
		prefer(preference, vmi, log)
	}
}

// knownTo returns the preference with only those fields that the version of KubeVirt applies to the VMI. Until v1.8 a preference adds no panic device, and its
// API has neither a video type nor encryption. v1.7 has only one field of tlbflush.
func (p *Preference) knownTo(version config.Version, vmi *v1.VirtualMachineInstance) *Preference {
	if version.Nearest() >= 9 {
		return p
	}
	older := *p
	older.Spec.PreferredLaunchSecurity = nil
	if older.Spec.Devices != nil {
		devices := *older.Spec.Devices
		devices.PreferredVideoType = nil
		if len(vmi.Spec.Domain.Devices.PanicDevices) == 0 {
			devices.PreferredPanicDeviceModel = nil
		}
		older.Spec.Devices = &devices
	}
	if features := older.Spec.Features; version.Nearest() < 8 && features != nil && features.PreferredHyperv != nil && features.PreferredHyperv.TLBFlush != nil {
		features = features.DeepCopy()
		features.PreferredHyperv.TLBFlush.Direct, features.PreferredHyperv.TLBFlush.Extended = nil, nil
		older.Spec.Features = features
	}
	return &older
}

// fillPointer sets a nil pointer to a copy of the value behind another.
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
