package resolve

import (
	"fmt"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/instancetype"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// reference is the matcher of a VM, for an instancetype or a preference.
type reference struct {
	pinKind
	kind, name, revision, inferFrom string
	policy                          *v1.InferFromVolumeFailurePolicy
	// inferred reports that a volume recommends kind and name.
	inferred bool
	vm       *v1.VirtualMachine
	// status is what Kiln's or KubeVirt's controller resolved before.
	status    *v1.InstancetypeStatusRef
	namespace string
	// isNew reports that the stored VM does not have this matcher, so that an error can still ask its author to correct it.
	isNew bool
}

// matcherReferences returns the two matchers of a VM, each nil if the VM does not have it.
func matcherReferences(vm *v1.VirtualMachine) (instancetype, preference *reference) {
	if vm == nil {
		return nil, nil
	}
	if m := vm.Spec.Instancetype; m != nil {
		instancetype = &reference{
			pinKind: instancetypes, kind: m.Kind, name: m.Name, revision: m.RevisionName, inferFrom: m.InferFromVolume,
			policy: m.InferFromVolumeFailurePolicy, vm: vm, status: vm.Status.InstancetypeRef, namespace: vm.Namespace,
		}
	}
	if m := vm.Spec.Preference; m != nil {
		preference = &reference{
			pinKind: preferences, kind: m.Kind, name: m.Name, revision: m.RevisionName, inferFrom: m.InferFromVolume,
			policy: m.InferFromVolumeFailurePolicy, vm: vm, status: vm.Status.PreferenceRef, namespace: vm.Namespace,
		}
	}
	return instancetype, preference
}

// refersToSame reports whether two matchers refer to the same object, so that the result for one is valid for the other.
func (r *reference) refersToSame(other *reference) bool {
	return r != nil && other != nil && r.pinKind.Canonical(r.kind) == other.pinKind.Canonical(other.kind) &&
		r.name == other.name && r.revision == other.revision && r.inferFrom == other.inferFrom && r.ignoresInferFailure() == other.ignoresInferFailure()
}

// matchesSource reports whether a snapshot was made from the object that the matcher names.
func (r *reference) matchesSource(s instancetype.Source) bool {
	if r.inferFrom != "" && !r.inferred {
		return true // the matcher names no object; the pin names what was inferred
	}
	return s.Name == r.name && s.Kind == r.pinKind.Canonical(r.kind)
}

// statusRevision returns the revision in the status, if the status is about this matcher.
func (r *reference) statusRevision() string {
	s := r.status
	if s == nil || s.ControllerRevisionRef == nil || s.InferFromVolume != r.inferFrom ||
		r.inferFrom == "" && (s.Name != r.name || r.pinKind.Canonical(s.Kind) != r.pinKind.Canonical(r.kind)) {
		return ""
	}
	return s.ControllerRevisionRef.Name
}

// StatusPins returns the revisions in the status of a VM for its matchers. Kiln's or KubeVirt's controller has written them.
func StatusPins(vm *v1.VirtualMachine) (recorded v1alpha1.Pins) {
	instancetype, preference := matcherReferences(vm)
	if instancetype != nil {
		recorded.Instancetype = instancetype.statusRevision()
	}
	if preference != nil {
		recorded.Preference = preference.statusRevision()
	}
	return recorded
}

// knownKind reports whether a matcher may name its kind. It warns of an unknown kind that a volume recommends; validation refuses an unknown kind that the
// user wrote.
func (r *reference) knownKind(resolution *Resolution) bool {
	if r.Canonical(r.kind) != "" {
		return true
	}
	if r.inferred {
		resolution.addWarning("the source of volume '%s' has label '%s-kind' with unknown kind '%s': use '%s' or '%s', or remove the label",
			r.inferFrom, r.label, r.kind, r.Namespaced, r.Cluster)
	}
	return false
}

// String returns what a matcher refers to, for messages.
func (r *reference) String() string {
	if r.name == "" {
		return fmt.Sprintf("%s recommended by volume '%s'", r.field, r.inferFrom)
	}
	return fmt.Sprintf("%s '%s'", r.field, r.name)
}

// objectNamespace returns the namespace of the object that a matcher names; empty for a cluster-wide one.
func (r *reference) objectNamespace() string {
	if r.pinKind.Canonical(r.kind) == r.Cluster {
		return ""
	}
	return r.namespace
}

// inNamespace returns the namespace of the object that a matcher names, as the end of a message; empty for a cluster-wide one.
func (r *reference) inNamespace() string {
	if r.objectNamespace() == "" {
		return ""
	}
	return " in namespace '" + r.namespace + "'"
}

// missingObject returns the object that the matcher names as a missing one.
func (r *reference) missingObject() Missing {
	m := Missing{Path: r.namePath(), Value: r.name, Kind: r.pinKind.Canonical(r.kind), Namespace: r.objectNamespace(), otherKind: r.Cluster}
	if m.Kind == r.Cluster {
		m.otherKind, m.otherNamespace = r.Namespaced, r.namespace
	}
	return m
}

// matcherPath returns the field of the VM that contains the matcher.
func (r *reference) matcherPath() *field.Path { return field.NewPath("spec", r.field) }

// namePath returns the field that names the object, or the volume that recommends it.
func (r *reference) namePath() *field.Path {
	if r.inferred {
		return r.matcherPath().Child("inferFromVolume")
	}
	return r.matcherPath().Child("name")
}
