// Package instancetype says what a size (instancetype) and a preference mean for a guest: which fields of the
// guest conflict, which requirements it misses, and what is filled in. It never reads a cluster.
package instancetype

import (
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
	"kubevirt.io/api/instancetype/v1beta1"
)

// Set is the size and the preference of one guest, already resolved. Either may be nil.
type Set struct {
	Instancetype *Instancetype
	Preference   *Preference
}

// Source says where a spec came from, for messages, annotations and provenance.
type Source struct {
	// Kind is the canonical kind, e.g. VirtualMachineClusterInstancetype.
	Kind, Name string
	// Revision is the ControllerRevision that holds it; empty when it was read live.
	Revision string
}

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

// Conflicts returns every field of the guest that the size also sets. It is the strict form for a VM's template:
// any value is a conflict. path is the root of the guest's spec, e.g. spec.template.spec.
func Conflicts(set Set, vmi *v1.VirtualMachineInstance, path *field.Path) field.ErrorList { return nil }

// Differences is the form for a VMI: only a value that differs from what the size would set is a conflict, since
// an equal one means that the size was applied before.
func Differences(set Set, vmi *v1.VirtualMachineInstance, path *field.Path) field.ErrorList {
	return nil
}

// Apply fills size, then preference, into the guest. What is set stays. The set is not aliased.
func Apply(set Set, vmi *v1.VirtualMachineInstance) {}

// Requirements returns what the preference requires and the explicit guest does not offer, all at once.
func Requirements(set Set, vmi *v1.VirtualMachineInstance, path *field.Path) field.ErrorList {
	return nil
}

// Snapshot is the content-addressed form of a size or preference.
type Snapshot struct {
	// Name is '<name>-<26 base32 characters of SHA-256>', at most 253 characters.
	Name string
	// Data is canonical JSON (RFC 8785): an object with apiVersion, kind, metadata.name and spec.
	Data []byte
}

// Take makes the snapshot of an untyped instancetype or preference object. The digest covers apiVersion, kind, name and spec.
func Take(object map[string]any) (Snapshot, error) { return Snapshot{}, nil }

// Verify tells whether data is what a revision of that name must hold.
func Verify(name string, data []byte) error { return nil }

// ReadInstancetype decodes a snapshot (or a KubeVirt per-VM revision's data) of either instancetype kind.
func ReadInstancetype(revision string, data []byte) (*Instancetype, error) { return nil, nil }

// ReadPreference decodes a snapshot of either preference kind.
func ReadPreference(revision string, data []byte) (*Preference, error) { return nil, nil }
