package admit

import (
	"fmt"
	"strings"

	v1 "kubevirt.io/api/core/v1"
)

// Provenance is worked out by running stage 1 step by step and comparing the guest before and after each, so that rules
// and passes know nothing of it, and admission does not pay for it.

// Kinds of origins.
const (
	FromUser         = "user"
	FromInstancetype = "instancetype"
	FromPreference   = "preference"
	FromPreset       = "preset"
	FromDefault      = "default"
)

// Origin says where the value of a field came from.
type Origin struct {
	Kind string `json:"kind"`
	// Name of the instancetype, preference or preset, or of the pass that knew the default.
	Name string `json:"name,omitempty"`
	// Revision that the instancetype or preference was read from.
	Revision string `json:"revision,omitempty"`
	// InferredFrom is the volume that named the instancetype or preference.
	InferredFrom string `json:"inferredFrom,omitempty"`
	// Because is the preference without which this origin would not have given the value, such as the one that arranges the vCPUs of
	// an instancetype; nil where no preference made a difference.
	Because *Origin `json:"because,omitempty"`
}

// String is the origin for people.
func (o Origin) String() string {
	text := strings.TrimSpace(o.Kind + " " + o.Name)
	if o.Kind == FromDefault {
		text = fmt.Sprintf("%s (%s)", o.Kind, o.Name)
	}
	if o.Revision != "" {
		text += "@" + o.Revision
	}
	if o.InferredFrom != "" {
		text += ", inferred from volume " + o.InferredFrom
	}
	if o.Because != nil {
		text += ", because of " + o.Because.String()
	}
	return text
}

// Fact is one leaf of an explicit guest: a value, or an object without fields, such as 'masquerade: {}'.
type Fact struct {
	// Path starts at the VMI: spec.domain.devices.disks[0].disk.bus
	Path  string `json:"path"`
	Value any    `json:"value"`
	// Origin is the step that gave the leaf its value: the last one, should a pass have corrected the user.
	Origin Origin `json:"origin"`
}

// Skipped is a field of a preference or preset that was not applied. One of a preference is listed if and only if the guest and the
// verdict on it are the same without it.
type Skipped struct {
	Origin Origin `json:"origin"`
	// Field of the preference's or preset's spec.
	Field  string `json:"field"`
	Reason string `json:"reason"`
}

// Explanation is the provenance of a guest.
type Explanation struct {
	// Fields are the leaves of spec and the annotations that stage 1 gave, in the order of the API's types.
	Fields     []Fact    `json:"fields"`
	NotApplied []Skipped `json:"notApplied"`
	// Notes say what the explanation cannot tell.
	Notes []string `json:"notes,omitempty"`
}

// ExplainVM explains the guest that a VM would boot. The VM must have a template and be one that VM allows.
func ExplainVM(vm *v1.VirtualMachine, in Input) Explanation {
	vmi, h := written(vm)
	return h.explain(vmi, in, source{volumes: inferred(vm), try: trialOf(vm)})
}

// written is the guest of a VM before stage 1, with its history.
func written(vm *v1.VirtualMachine) (*v1.VirtualMachineInstance, history) {
	vmi, h := Instance(vm), history{}
	h.note(vmi, Origin{Kind: FromUser})
	placeIdentity(vmi)
	h.note(vmi, Origin{Kind: FromDefault, Name: "identity"})
	return vmi, h
}

// ExplainVMI explains a VMI that VMI allows. All that it holds is the user's word here, also what its VM's size gave it before:
// ExplainGuest knows better of guests of VMs.
func ExplainVMI(given *v1.VirtualMachineInstance, in Input) Explanation {
	vmi, h := given.DeepCopy(), history{}
	h.note(vmi, Origin{Kind: FromUser})
	from := source{try: func(in Input) (*v1.VirtualMachineInstance, Verdict) {
		explicit, verdict := VMI(given, in)
		judged := Judge(explicit, in)
		return explicit, Verdict{append(verdict.Errors, judged.Errors...), append(verdict.Warnings, judged.Warnings...)}
	}}
	if given.UID == "" {
		return h.explain(vmi, in, from)
	}
	// It has been through admission: whatever its preference gave it stays without the preference.
	from.try = nil
	explained := h.explain(vmi, in, from)
	explained.Notes = []string{noteBare}
	return explained
}

// source is what else is known of a guest that is explained.
type source struct {
	// volumes are those from which instancetype and preference were inferred.
	volumes map[string]string
	// try tells what the guest would be otherwise; nil where that cannot be told.
	try trial
}

// explain makes the guest explicit.
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

// follow runs stage 1 and notes what each step gives. It returns the origin of what the preference gives, and the fields of presets
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

// Steps runs stage 1 on the guest itself and calls back after each step: the instancetype, the preference, each preset and each
// pass of the defaults, in this order. The first two and one preset come in any case, without a name where there is none. The
// preference comes twice, around the devices that a guest has without naming them: it says whether, and then which.
// It returns the fields of presets that were not applied.
func Steps(vmi *v1.VirtualMachineInstance, in Input, after func(Origin)) (skipped []Skipped) {
	// Errors are the verdict's to tell: a guest whose presets disagree has no explanation.
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

// note compares the guest with what is known of it and ascribes what differs.
func (h history) note(vmi *v1.VirtualMachineInstance, origin Origin) {
	for _, l := range guestLeaves(vmi) {
		if was, found := h[l.Key]; !found || was.value != l.Text() {
			h[l.Key] = known{l.Text(), origin}
		}
	}
}

func (h history) facts(vmi *v1.VirtualMachineInstance) []Fact {
	var facts []Fact
	for _, l := range guestLeaves(vmi) {
		facts = append(facts, Fact{l.Path, l.Value, h[l.Key].origin})
	}
	return facts
}
