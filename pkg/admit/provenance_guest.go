package admit

import (
	"cmp"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/identity"
	"github.com/kilnvm/kiln/pkg/record"
	v1 "kubevirt.io/api/core/v1"
)

// A stored VMI holds one value for each field and not who set it: the API server ascribes what admission changed to the user's request. The
// provenance of a VMI of a VM can be found again: the VM is as it was written, and the pins of the VMI name all else that went into it. Stage 1
// runs once more, and the result is compared.

// fromElsewhere is the origin of what is in a stored VMI and does not follow from its VM.
const fromElsewhere = "elsewhere"

// Notes of explanations.
const (
	noteBare = "no VM of this VMI could be read: fields that admission or the preference filled in are shown as 'user' too"
	noteElse = "'elsewhere': the VM as it is now does not set the field. The VM was edited after this VMI was created, or something else changed the VMI"
)

// ExplainGuest explains a stored VMI by the VM that it was made of and what the VMI is pinned to. frozen is the record of its hardware; nil
// before its first boot. The VM must have a template.
func ExplainGuest(vmi *v1.VirtualMachineInstance, vm *v1.VirtualMachine, frozen *record.Record, in Input) Explanation {
	made, h := Instance(vm), history{}
	h.note(made, Origin{Kind: FromUser})
	h.ascribeToKubeVirt(made, vm, in)
	seed := cmp.Or(vmi.Annotations[v1alpha1.AnnotationIdentity], vm.Annotations[v1alpha1.AnnotationIdentity])
	derived := made.DeepCopy()
	identity.Fill(derived, seed)
	h.note(derived, Origin{Kind: FromDefault, Name: "identity"})
	if frozen != nil { // as its controller does: the recorded hardware wins over the seed
		identity.Recall(made, frozen)
	}
	identity.Fill(made, seed)
	h.note(made, recordOf(vmi))
	explained := h.explain(made, in, source{volumes: inferred(vm), try: trialOf(vm)})
	h.noteAddresses(vmi, made, frozen, in)
	explained.Fields = h.labels(vmi)
	for _, l := range guestLeaves(vmi) {
		origin := h[l.Key].origin
		if h[l.Key].value != l.Text() {
			origin, explained.Notes = Origin{Kind: fromElsewhere}, []string{noteElse}
		}
		explained.Fields = append(explained.Fields, Fact{l.Path, l.Value, origin})
	}
	return explained
}

// recordOf is the origin of what the record of a VMI has given it.
func recordOf(vmi *v1.VirtualMachineInstance) Origin {
	return Origin{Kind: FromRecord, Name: "GuestHardware " + vmi.Name}
}

// inferred are the volumes that named the instancetype and the preference of a VM.
func inferred(vm *v1.VirtualMachine) map[string]string {
	volumes := map[string]string{}
	if m := vm.Spec.Instancetype; m != nil {
		volumes[FromInstancetype] = m.InferFromVolume
	}
	if m := vm.Spec.Preference; m != nil {
		volumes[FromPreference] = m.InferFromVolume
	}
	return volumes
}
