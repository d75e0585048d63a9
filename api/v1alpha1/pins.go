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
	// Profiles are the GuestProfiles and ClusterGuestProfiles that select the VMI, and those that they extend. Nil means not pinned yet; empty means
	// none. Where Presets are pinned, so are Profiles: an absent key means none there, as in pins of a release without profiles.
	Profiles []string `json:"profiles,omitzero"`
	// Bases are ClusterGuestProfiles that those in Profiles extend and that are not for the namespace of the VM: they fill nothing by themselves.
	Bases []string `json:"bases,omitempty"`
	// Configuration holds a ClusterConfiguration. It is empty where it is not pinned yet.
	Configuration string `json:"configuration,omitempty"`
}

// Equal reports whether two pins are the same, key by key. Nil and empty presets differ, and so do nil and empty profiles where no presets are pinned.
func (p Pins) Equal(q Pins) bool {
	return p.Instancetype == q.Instancetype && p.Preference == q.Preference && p.Configuration == q.Configuration &&
		(p.Presets == nil) == (q.Presets == nil) && slices.Equal(p.Presets, q.Presets) &&
		p.PinsProfiles() == q.PinsProfiles() && slices.Equal(p.Profiles, q.Profiles) && slices.Equal(p.Bases, q.Bases)
}

// PinsProfiles reports whether profiles are pinned, maybe to none.
func (p Pins) PinsProfiles() bool { return p.Profiles != nil || p.Presets != nil }
