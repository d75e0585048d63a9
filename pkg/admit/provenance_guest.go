package admit

import (
	"cmp"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/identity"
	"github.com/kilnvm/kiln/pkg/record"
	v1 "kubevirt.io/api/core/v1"
)

// A stored VMI has values and not their origins: the API server ascribes what admission changed to the user's request. The provenance of a VMI of a VM can be
// found again, because the VM is as it was written, and the pins of the VMI name all other objects that went into it: stage 1 runs once more, and the result is
// compared.

// fromElsewhere is the origin of a value in a stored VMI that does not follow from its VM.
const fromElsewhere = "elsewhere"

// Notes of explanations.
const (
	noteBare = "no VM of this VMI could be read: fields that admission or the preference filled in are shown as 'user' too"
	noteElse = "'elsewhere': the VM as it is now does not set the field. The VM was edited after this VMI was created, or something else changed the VMI"
)

// ExplainGuest explains a stored VMI by the VM of which it was made and the objects to which the VMI is pinned. frozen is the record of its hardware; nil
// before its first boot. The VM must have a template.
func ExplainGuest(vmi *v1.VirtualMachineInstance, vm *v1.VirtualMachine, frozen *record.Record, in Input) Explanation {
	made, h := Instance(vm), history{}
	h.noteChanges(made, Origin{Kind: FromUser})
	h.ascribeToKubeVirt(made, vm, in)
	seed := cmp.Or(vmi.Annotations[v1alpha1.AnnotationIdentity], vm.Annotations[v1alpha1.AnnotationIdentity])
	derived := made.DeepCopy()
	identity.Fill(derived, seed)
	h.noteChanges(derived, Origin{Kind: FromDefault, Name: "identity"})
	if frozen != nil { // as the controller does: the recorded hardware wins over the seed
		identity.Recall(made, frozen)
	}
	identity.Fill(made, seed)
	h.noteChanges(made, recordOrigin(vmi))
	explained := h.explainLeaves(made, in, sourceHints{volumes: inferredVolumes(vm), try: trialOf(vm)})
	h.noteHardware(vmi, made, frozen, in)
	explained.Fields = h.profileLabels(vmi)
	for _, l := range guestLeaves(vmi) {
		origin := h[l.Key].origin
		if h[l.Key].value != l.Text() {
			origin, explained.Notes = Origin{Kind: fromElsewhere}, []string{noteElse}
		}
		explained.Fields = append(explained.Fields, Fact{l.Path, l.Value, origin})
	}
	return explained
}

// recordOrigin returns the origin of values that a VMI has from its record.
func recordOrigin(vmi *v1.VirtualMachineInstance) Origin {
	return Origin{Kind: FromRecord, Name: "GuestHardware " + vmi.Name}
}

// inferredVolumes returns the volumes from which the instancetype and the preference of a VM are inferred, by FromInstancetype and FromPreference.
func inferredVolumes(vm *v1.VirtualMachine) map[string]string {
	volumes := map[string]string{}
	if m := vm.Spec.Instancetype; m != nil {
		volumes[FromInstancetype] = m.InferFromVolume
	}
	if m := vm.Spec.Preference; m != nil {
		volumes[FromPreference] = m.InferFromVolume
	}
	return volumes
}
