package resolve

import (
	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/instancetype"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
	api "kubevirt.io/api/instancetype"
)

// family is one of the two things that a VirtualMachine refers to: a size or a preference.
type family struct {
	// field is the name of the matcher in the spec of a VM.
	field string
	instancetype.KindNames
	// label of a volume's source recommends one by name; with '-kind' appended, by kind.
	label string
}

var (
	sizes       = family{field: "instancetype", KindNames: instancetype.Kinds, label: api.DefaultInstancetypeLabel}
	preferences = family{field: "preference", KindNames: instancetype.PreferenceKinds, label: api.DefaultPreferenceLabel}
)

// reference is the matcher of a VM, size or preference alike.
type reference struct {
	family
	kind, name, revision, inferFrom string
	policy                          *v1.InferFromVolumeFailurePolicy
	// inferred says that kind and name are what a volume recommends.
	inferred bool
	vm       *v1.VirtualMachine
	// status is what was resolved before, by Kiln's controller or KubeVirt's.
	status    *v1.InstancetypeStatusRef
	namespace string
	path      *field.Path
}

// references are the two matchers of a VM; nil where it has none.
func references(vm *v1.VirtualMachine) (size, preference *reference) {
	if vm == nil {
		return nil, nil
	}
	if m := vm.Spec.Instancetype; m != nil {
		size = &reference{
			family: sizes, kind: m.Kind, name: m.Name, revision: m.RevisionName, inferFrom: m.InferFromVolume,
			policy: m.InferFromVolumeFailurePolicy, vm: vm, status: vm.Status.InstancetypeRef, namespace: vm.Namespace, path: field.NewPath("spec", sizes.field),
		}
	}
	if m := vm.Spec.Preference; m != nil {
		preference = &reference{
			family: preferences, kind: m.Kind, name: m.Name, revision: m.RevisionName, inferFrom: m.InferFromVolume,
			policy: m.InferFromVolumeFailurePolicy, vm: vm, status: vm.Status.PreferenceRef, namespace: vm.Namespace, path: field.NewPath("spec", preferences.field),
		}
	}
	return size, preference
}

// same tells whether two matchers mean the same, so that what was resolved for one holds for the other.
func (r *reference) same(other *reference) bool {
	return r != nil && other != nil && r.family.Canonical(r.kind) == other.family.Canonical(other.kind) &&
		r.name == other.name && r.revision == other.revision && r.inferFrom == other.inferFrom && r.ignores() == other.ignores()
}

// fits tells whether a snapshot is of the object that the matcher names.
func (r *reference) fits(s instancetype.Source) bool {
	if r.inferFrom != "" && !r.inferred {
		return true // the matcher names no object; whatever was inferred is in the pin
	}
	return s.Name == r.name && s.Kind == r.family.Canonical(r.kind)
}

// statusRevision is the revision that the status records, when the status is about this matcher.
func (r *reference) statusRevision() string {
	s := r.status
	if s == nil || s.ControllerRevisionRef == nil || s.InferFromVolume != r.inferFrom ||
		r.inferFrom == "" && (s.Name != r.name || r.family.Canonical(s.Kind) != r.family.Canonical(r.kind)) {
		return ""
	}
	return s.ControllerRevisionRef.Name
}

// Recorded are the revisions that the status of a VM records for its matchers, by Kiln's controller or KubeVirt's.
func Recorded(vm *v1.VirtualMachine) (recorded v1alpha1.Pins) {
	size, preference := references(vm)
	if size != nil {
		recorded.Instancetype = size.statusRevision()
	}
	if preference != nil {
		recorded.Preference = preference.statusRevision()
	}
	return recorded
}
