package v1alpha1

import "slices"

// PinNone is the pin of a matcher whose volume recommends nothing, where inferFromVolumeFailurePolicy is Ignore. It is not a legal
// name of a ControllerRevision.
const PinNone = "(none)"

// Pins names the ControllerRevisions, in the namespace of the VM, that a VM or a VMI is built from. It is the value of AnnotationPins.
// +kubebuilder:object:generate=false
type Pins struct {
	// Instancetype is a ControllerRevision, or PinNone. It is empty where nothing is pinned yet, or where spec.instancetype is absent.
	Instancetype string `json:"instancetype,omitempty"`
	// Preference is a ControllerRevision, or PinNone. It is empty where nothing is pinned yet, or where spec.preference is absent.
	Preference string `json:"preference,omitempty"`
	// Presets are the VirtualMachineInstancePresets that match, in the order of their names. Nil means not pinned yet; empty means none.
	Presets []string `json:"presets,omitzero"`
	// Configuration holds a ClusterConfiguration. It is empty where it is not pinned yet.
	Configuration string `json:"configuration,omitempty"`
}

// Equal reports whether two pins are the same, key by key. Nil and empty presets differ.
func (p Pins) Equal(q Pins) bool {
	return p.Instancetype == q.Instancetype && p.Preference == q.Preference && p.Configuration == q.Configuration &&
		(p.Presets == nil) == (q.Presets == nil) && slices.Equal(p.Presets, q.Presets)
}
