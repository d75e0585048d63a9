package admit

import (
	"fmt"
	"strings"

	"github.com/kilnvm/kiln/api/v1alpha1"
	v1 "kubevirt.io/api/core/v1"
)

// Provenance is found by running stage 1 step by step and comparing the VMI before and after each step. Rules and passes have no code for it, and it costs
// admission nothing.

// Kinds of origins.
const (
	FromUser         = "user"
	FromInstancetype = "instancetype"
	FromPreference   = "preference"
	FromPreset       = "preset"
	FromDefault      = "default"
	// FromRecord is the hardware of earlier boots. The name of the origin is the kind and the name of the GuestHardware.
	FromRecord = "record"
	// FromProfile and FromClusterProfile are the kinds of profiles.
	FromProfile        = v1alpha1.KindGuestProfile
	FromClusterProfile = v1alpha1.KindClusterGuestProfile
)

// Origin says where the value of a field came from.
type Origin struct {
	Kind string `json:"kind"`
	// Name is the name of the instancetype, preference, preset, profile or record, or of the pass that set the default.
	Name string `json:"name,omitempty"`
	// Revision is the ControllerRevision from which the instancetype, preference or profile was read.
	Revision string `json:"revision,omitempty"`
	// InferredFrom is the volume that named the instancetype or preference.
	InferredFrom string `json:"inferredFrom,omitempty"`
	// Extends is the profile whose template has the value, if the profile of this origin extends that profile; nil for the profile's own values.
	Extends *Origin `json:"extends,omitempty"`
	// Because is the preference without which this origin would not have set the value, such as the preference that arranges the vCPUs of an instancetype.
	// It is nil if no preference made a difference.
	Because *Origin `json:"because,omitempty"`
	// Or is another possible author of the value. It is nil if the author is known.
	Or *Origin `json:"or,omitempty"`
}

// String returns the origin as explanations show it.
func (o Origin) String() string {
	text := strings.TrimSpace(o.Kind + " " + o.Name)
	if o.Kind == FromDefault || o.Kind == FromRecord {
		text = fmt.Sprintf("%s (%s)", o.Kind, o.Name)
	}
	if o.Revision != "" {
		text += "@" + o.Revision
	}
	if o.Extends != nil {
		text += ", which extends " + o.Extends.String()
	}
	if o.InferredFrom != "" {
		text += ", inferred from volume " + o.InferredFrom
	}
	if o.Or != nil {
		text += " or " + o.Or.String()
	}
	if o.Because != nil {
		text += ", because of " + o.Because.String()
	}
	return text
}

// Fact is one leaf of an explicit VMI: a value, or an object without fields, such as 'masquerade: {}'.
type Fact struct {
	// Path starts at the VMI, such as spec.domain.devices.disks[0].disk.bus.
	Path  string `json:"path"`
	Value any    `json:"value"`
	// Origin is the last step that set the value. A pass may correct the user.
	Origin Origin `json:"origin"`
}

// Skipped is a field of a preference or preset that was not applied. A field of a preference is listed if and only if the VMI and its verdict are the same
// without the field.
type Skipped struct {
	Origin Origin `json:"origin"`
	// Field is a path in the preference's or preset's spec.
	Field  string `json:"field"`
	Reason string `json:"reason"`
}

// Explanation is the provenance of a VMI.
type Explanation struct {
	// Fields are the labels that profiles filled, the annotations that stage 1 set, and the leaves of spec, in the order of the API's types.
	Fields     []Fact    `json:"fields"`
	NotApplied []Skipped `json:"notApplied"`
	// Notes are sentences about what the explanation cannot know.
	Notes []string `json:"notes,omitempty"`
}

// ExplainVM explains the VMI that a VM would boot. The VM must have a template, and the verdict of function VM on it must have no errors.
func ExplainVM(vm *v1.VirtualMachine, in Input) Explanation {
	vmi, h := unexpandedVMI(vm)
	h.ascribeToKubeVirt(vmi, vm, in)
	explained := h.explainLeaves(vmi, in, sourceHints{volumes: inferredVolumes(vm), try: trialOf(vm)})
	explained.addKubeVirtFills(vm, in)
	return explained
}

// unexpandedVMI returns the VMI of a VM before stage 1, with its history.
func unexpandedVMI(vm *v1.VirtualMachine) (*v1.VirtualMachineInstance, history) {
	vmi, h := Instance(vm), history{}
	h.noteChanges(vmi, Origin{Kind: FromUser})
	placeIdentity(vmi)
	h.noteChanges(vmi, Origin{Kind: FromDefault, Name: "identity"})
	return vmi, h
}

// ExplainVMI explains a VMI without errors in the verdict of function VMI. All that the VMI contains counts as the user's, even what the instancetype of its VM
// set before. For a VMI of a VM use ExplainGuest, which compares with the VM.
func ExplainVMI(given *v1.VirtualMachineInstance, in Input) Explanation {
	vmi, h := given.DeepCopy(), history{}
	h.noteChanges(vmi, Origin{Kind: FromUser})
	from := sourceHints{try: func(in Input) (*v1.VirtualMachineInstance, Verdict) {
		explicit, verdict := VMI(given, in)
		judged := Judge(explicit, in)
		return explicit, Verdict{Errors: append(verdict.Errors, judged.Errors...), Warnings: append(verdict.Warnings, judged.Warnings...)}
	}}
	if given.UID == "" {
		return h.explainLeaves(vmi, in, from)
	}
	// The VMI has been through admission: what its preference set would stay without the preference.
	from.try = nil
	explained := h.explainLeaves(vmi, in, from)
	explained.Notes = []string{noteBare}
	return explained
}

// sourceHints is what else is known of a VMI that is explained.
type sourceHints struct {
	// volumes are the volumes from which the instancetype and the preference were inferred, by FromInstancetype and FromPreference.
	volumes map[string]string
	// try runs stage 1 with another input; nil for a VMI that has been through stage 1 before.
	try trial
}

// explainLeaves makes the VMI explicit and returns the origin of each leaf.
func (h history) explainLeaves(vmi *v1.VirtualMachineInstance, in Input, from sourceHints) Explanation {
	start := vmi.DeepCopy()
	preference, skipped := h.runSteps(vmi, in, from.volumes)
	if in.Set.Preference != nil {
		h.markPreferenceEffects(start, in, preference)
	}
	explained := Explanation{Fields: h.factsOf(vmi)}
	if from.try != nil {
		explained.NotApplied = fieldsWithoutEffect(in, preference, explained.Fields, from.try)
	}
	explained.NotApplied = append(explained.NotApplied, skipped...)
	return explained
}

// runSteps runs stage 1 and notes what each step sets. It returns the origin of values that the preference sets, and the fields of presets that were not
// applied.
func (h history) runSteps(vmi *v1.VirtualMachineInstance, in Input, volumes map[string]string) (preference Origin, skipped []Skipped) {
	skipped = Steps(vmi, in, func(origin Origin) {
		origin.InferredFrom = volumes[origin.Kind]
		if origin.Kind == FromPreference {
			preference = origin
		}
		h.noteChanges(vmi, origin)
	})
	return preference, skipped
}

// Steps runs stage 1 on the VMI itself and calls after at the end of each step: the instancetype, the preference, each preset, each profile and each pass of
// the defaults, in this order. The origins of the first two and of one preset come in any case, without a name if the VMI has no such object. The preference
// comes twice: first it decides whether a VMI gets devices that it does not name, then it sets their models. Steps returns the fields of presets that were not
// applied.
func Steps(vmi *v1.VirtualMachineInstance, in Input, after func(Origin)) (skipped []Skipped) {
	// Errors are part of the verdict: a VMI whose presets disagree has no explanation.
	for _, s := range expandVMI(vmi, in, after).skipped {
		skipped = append(skipped, Skipped{Origin{Kind: FromPreset, Name: s.Preset}, s.Field, s.Reason})
	}
	return skipped
}

// history contains the value and the origin of each leaf, by Leaf.Key.
type history map[string]noted

type noted struct {
	value  string
	origin Origin
}

// noteChanges sets the origin of all leaves of the VMI that are new, or whose values differ from the noted values.
func (h history) noteChanges(vmi *v1.VirtualMachineInstance, origin Origin) {
	for _, l := range append(labelLeaves(vmi), guestLeaves(vmi)...) {
		if was, found := h[l.Key]; !found || was.value != l.Text() {
			h[l.Key] = noted{l.Text(), origin}
		}
	}
}

func (h history) factsOf(vmi *v1.VirtualMachineInstance) []Fact {
	facts := h.profileLabels(vmi)
	for _, l := range guestLeaves(vmi) {
		facts = append(facts, Fact{l.Path, l.Value, h[l.Key].origin})
	}
	return facts
}

// profileLabels returns the labels that profiles filled. The owner's labels do not change what boots.
func (h history) profileLabels(vmi *v1.VirtualMachineInstance) (facts []Fact) {
	for _, l := range labelLeaves(vmi) {
		if was := h[l.Key]; was.value == l.Text() && (was.origin.Kind == FromProfile || was.origin.Kind == FromClusterProfile) {
			facts = append(facts, Fact{l.Path, l.Value, was.origin})
		}
	}
	return facts
}
