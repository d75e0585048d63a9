package v1alpha1

import "slices"

// PinNone is the pin of a matcher whose volume recommends nothing, if inferFromVolumeFailurePolicy is Ignore. PinNone is not a legal name of a
// ControllerRevision.
const PinNone = "(none)"

// Pins contains the names of the ControllerRevisions, in the namespace of the VM, from which a VM or a VMI is built. It is the value of AnnotationPins.
// +kubebuilder:object:generate=false
type Pins struct {
	// Instancetype is a ControllerRevision, or PinNone. It is empty if nothing is pinned yet, or if spec.instancetype is absent.
	Instancetype string `json:"instancetype,omitempty"`
	// Preference is a ControllerRevision, or PinNone. It is empty if nothing is pinned yet, or if spec.preference is absent.
	Preference string `json:"preference,omitempty"`
	// Presets are the VirtualMachineInstancePresets that match, in the order of their names. Nil means not pinned yet; empty means pinned to no preset.
	Presets []string `json:"presets,omitzero"`
	// Profiles are the GuestProfiles and ClusterGuestProfiles that select the VMI, and the profiles that they extend. Nil means not pinned yet; empty means
	// pinned to no profile. If Presets are pinned, nil means pinned to no profile, too, because pins of a release without profiles lack the key.
	Profiles []string `json:"profiles,omitzero"`
	// Bases are ClusterGuestProfiles that are not for the namespace of the VM, and that profiles in Profiles extend. By themselves they do not fill fields.
	Bases []string `json:"bases,omitempty"`
	// Configuration is a ControllerRevision with a ClusterConfiguration. It is empty if the configuration is not pinned yet.
	Configuration string `json:"configuration,omitempty"`
}

// Equal reports whether two pins are the same, key by key. Nil and empty presets differ. Nil and empty profiles differ if no presets are pinned.
func (p Pins) Equal(q Pins) bool {
	return p.Instancetype == q.Instancetype && p.Preference == q.Preference && p.Configuration == q.Configuration &&
		(p.Presets == nil) == (q.Presets == nil) && slices.Equal(p.Presets, q.Presets) &&
		p.PinsProfiles() == q.PinsProfiles() && slices.Equal(p.Profiles, q.Profiles) && slices.Equal(p.Bases, q.Bases)
}

// PinsProfiles reports whether profiles are pinned, maybe to none.
func (p Pins) PinsProfiles() bool { return p.Profiles != nil || p.Presets != nil }
