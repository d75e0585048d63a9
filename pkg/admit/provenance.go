package admit

import (
	"fmt"
	"strings"

	"github.com/kilnvm/kiln/api/v1alpha1"
	v1 "kubevirt.io/api/core/v1"
)

// Provenance comes from running stage 1 step by step and comparing the VMI before and after each step. Rules and passes know nothing of it, and
// admission does not pay for it.

// Kinds of origins.
const (
	FromUser         = "user"
	FromInstancetype = "instancetype"
	FromPreference   = "preference"
	FromPreset       = "preset"
	FromDefault      = "default"
	// FromRecord is the hardware of earlier boots; the name is that of the GuestHardware, with its kind.
	FromRecord = "record"
	// FromProfile and FromClusterProfile are the kinds of profiles.
	FromProfile        = v1alpha1.KindGuestProfile
	FromClusterProfile = v1alpha1.KindClusterGuestProfile
)

// Origin says where the value of a field came from.
type Origin struct {
	Kind string `json:"kind"`
	// Name of the instancetype, preference, preset or profile, of the record, or of the pass that set the default.
	Name string `json:"name,omitempty"`
	// Revision that the instancetype, preference or profile was read from.
	Revision string `json:"revision,omitempty"`
	// InferredFrom is the volume that named the instancetype or preference.
	InferredFrom string `json:"inferredFrom,omitempty"`
	// Extends is the profile whose template has the value, where the profile of this origin extends it; nil for the profile's own values.
	Extends *Origin `json:"extends,omitempty"`
	// Because is the preference without which this origin would not have given the value, such as the one that arranges the vCPUs of
	// an instancetype; nil where no preference made a difference.
	Because *Origin `json:"because,omitempty"`
	// Or is another possible author of the value. It is nil where the author is known.
	Or *Origin `json:"or,omitempty"`
}

// String is the origin for people.
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
	// Path starts at the VMI: spec.domain.devices.disks[0].disk.bus
	Path  string `json:"path"`
	Value any    `json:"value"`
	// Origin is the step that set the value: the last one, where a pass corrected the user.
	Origin Origin `json:"origin"`
}

// Skipped is a field of a preference or preset that was not applied. A preference's field is listed if and only if the VMI and the verdict on it
// are the same without the field.
type Skipped struct {
	Origin Origin `json:"origin"`
	// Field of the preference's or preset's spec.
	Field  string `json:"field"`
	Reason string `json:"reason"`
}

// Explanation is the provenance of a VMI.
type Explanation struct {
	// Fields are the labels that profiles filled, the annotations that stage 1 set, and the leaves of spec, in the order of the API's types.
	Fields     []Fact    `json:"fields"`
	NotApplied []Skipped `json:"notApplied"`
	// Notes say what the explanation leaves open.
	Notes []string `json:"notes,omitempty"`
}

// ExplainVM explains the VMI that a VM would boot. The VM must have a template and be one that VM allows.
func ExplainVM(vm *v1.VirtualMachine, in Input) Explanation {
	vmi, h := written(vm)
	h.ascribeToKubeVirt(vmi, vm, in)
	explained := h.explain(vmi, in, source{volumes: inferred(vm), try: trialOf(vm)})
	explained.foretell(vm, in)
	return explained
}

// written returns the VMI of a VM before stage 1, with its history.
func written(vm *v1.VirtualMachine) (*v1.VirtualMachineInstance, history) {
	vmi, h := Instance(vm), history{}
	h.note(vmi, Origin{Kind: FromUser})
	placeIdentity(vmi)
	h.note(vmi, Origin{Kind: FromDefault, Name: "identity"})
	return vmi, h
}

// ExplainVMI explains a VMI that VMI allows. All that it holds counts as the user's, also what the instancetype of its VM set before: for a VMI of
// a VM use ExplainGuest, which compares with the VM.
func ExplainVMI(given *v1.VirtualMachineInstance, in Input) Explanation {
	vmi, h := given.DeepCopy(), history{}
	h.note(vmi, Origin{Kind: FromUser})
	from := source{try: func(in Input) (*v1.VirtualMachineInstance, Verdict) {
		explicit, verdict := VMI(given, in)
		judged := Judge(explicit, in)
		return explicit, Verdict{Errors: append(verdict.Errors, judged.Errors...), Warnings: append(verdict.Warnings, judged.Warnings...)}
	}}
	if given.UID == "" {
		return h.explain(vmi, in, from)
	}
	// It has been through admission: what its preference set stays without the preference.
	from.try = nil
	explained := h.explain(vmi, in, from)
	explained.Notes = []string{noteBare}
	return explained
}

// source is what else is known of a VMI that is explained.
type source struct {
	// volumes are those from which instancetype and preference were inferred.
	volumes map[string]string
	// try runs stage 1 with another input; nil for a VMI that has been through stage 1 already.
	try trial
}

// explain makes the VMI explicit and notes the origin of each leaf on the way.
func (h history) explain(vmi *v1.VirtualMachineInstance, in Input, from source) Explanation {
	start := vmi.DeepCopy()
	preference, skipped := h.follow(vmi, in, from.volumes)
	if in.Set.Preference != nil {
		h.ascribe(start, in, preference)
	}
	explained := Explanation{Fields: h.facts(vmi)}
	if from.try != nil {
		explained.NotApplied = unpreferred(in, preference, explained.Fields, from.try)
	}
	explained.NotApplied = append(explained.NotApplied, skipped...)
	return explained
}

// follow runs stage 1 and notes what each step sets. It returns the origin of what the preference sets, and the fields of presets
// that were not applied.
func (h history) follow(vmi *v1.VirtualMachineInstance, in Input, volumes map[string]string) (preference Origin, skipped []Skipped) {
	skipped = Steps(vmi, in, func(origin Origin) {
		origin.InferredFrom = volumes[origin.Kind]
		if origin.Kind == FromPreference {
			preference = origin
		}
		h.note(vmi, origin)
	})
	return preference, skipped
}

// Steps runs stage 1 on the VMI itself and calls back after each step: the instancetype, the preference, each preset, each
// profile and each pass of the defaults, in this order. The first two and one preset come in any case, without a name where there is none. The
// preference comes twice, around the devices that a VMI has without naming them: first whether it has them, then their models.
// It returns the fields of presets that were not applied.
func Steps(vmi *v1.VirtualMachineInstance, in Input, after func(Origin)) (skipped []Skipped) {
	// Errors are part of the verdict: a VMI whose presets disagree has no explanation.
	for _, s := range expand(vmi, in, after).left {
		skipped = append(skipped, Skipped{Origin{Kind: FromPreset, Name: s.Preset}, s.Field, s.Reason})
	}
	return skipped
}

// history holds the value and the origin of each leaf, by its key.
type history map[string]known

type known struct {
	value  string
	origin Origin
}

// note compares the VMI with the leaves noted before and ascribes to the origin what differs.
func (h history) note(vmi *v1.VirtualMachineInstance, origin Origin) {
	for _, l := range append(labelLeaves(vmi), guestLeaves(vmi)...) {
		if was, found := h[l.Key]; !found || was.value != l.Text() {
			h[l.Key] = known{l.Text(), origin}
		}
	}
}

func (h history) facts(vmi *v1.VirtualMachineInstance) []Fact {
	facts := h.labels(vmi)
	for _, l := range guestLeaves(vmi) {
		facts = append(facts, Fact{l.Path, l.Value, h[l.Key].origin})
	}
	return facts
}

// labels returns the labels that profiles filled. Those of the owner change nothing in what boots.
func (h history) labels(vmi *v1.VirtualMachineInstance) (facts []Fact) {
	for _, l := range labelLeaves(vmi) {
		if was := h[l.Key]; was.value == l.Text() && (was.origin.Kind == FromProfile || was.origin.Kind == FromClusterProfile) {
			facts = append(facts, Fact{l.Path, l.Value, was.origin})
		}
	}
	return facts
}
