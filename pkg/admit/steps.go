package admit

import (
	"github.com/kilnvm/kiln/pkg/instancetype"
	"github.com/kilnvm/kiln/pkg/mutate"
	"github.com/kilnvm/kiln/pkg/preset"
	"github.com/kilnvm/kiln/pkg/validate"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// steps make a guest explicit, in this order. Each fills what is unset, so that who comes first wins.
var steps = []func(*run){
	(*run).size,
	(*run).preferredDevices, // whether the guest has them
	(*run).attachedDevices,
	(*run).preference, // and what they are like
	(*run).presets,
	(*run).defaults,
}

// run is stage 1 on one guest.
type run struct {
	vmi *v1.VirtualMachineInstance
	in  Input
	// observe is called after each step with the origin of what the step gave; nil where nobody asks.
	observe func(Origin)
	// left are fields of presets that were not applied.
	left []preset.Skipped
	errs field.ErrorList
}

// expand runs all steps on the guest itself. observe may be nil.
func expand(vmi *v1.VirtualMachineInstance, in Input, observe func(Origin)) run {
	r := run{vmi: vmi, in: in, observe: observe}
	for _, step := range steps {
		step(&r)
	}
	return r
}

func (r *run) gave(origin Origin) {
	if r.observe != nil {
		r.observe(origin)
	}
}

func (r *run) size() {
	instancetype.ApplySize(r.in.Set, r.vmi)
	origin := Origin{Kind: FromInstancetype}
	if s := r.in.Set.Instancetype; s != nil {
		name(r.vmi, s.Source)
		origin.Name, origin.Revision = s.Name, s.Revision
	}
	r.gave(origin)
}

func (r *run) preferredDevices() {
	instancetype.Attach(r.in.Set, r.vmi)
	r.gave(r.byPreference())
}

func (r *run) attachedDevices() {
	mutate.Attach(r.vmi, r.in.defaults())
	r.gave(Origin{Kind: FromDefault, Name: "attached devices"})
}

func (r *run) preference() {
	instancetype.ApplyPreference(r.in.Set, r.vmi)
	if p := r.in.Set.Preference; p != nil {
		name(r.vmi, p.Source)
	}
	r.gave(r.byPreference())
}

func (r *run) byPreference() Origin {
	origin := Origin{Kind: FromPreference}
	if p := r.in.Set.Preference; p != nil {
		origin.Name, origin.Revision = p.Name, p.Revision
	}
	return origin
}

// presets are observed one by one; a guest that none matches has the step all the same.
func (r *run) presets() {
	filled := false
	left, errs := preset.Fill(r.in.Presets, r.vmi, func(name string) {
		filled = true
		r.gave(Origin{Kind: FromPreset, Name: name})
	})
	r.left, r.errs = left, append(r.errs, errs.WithOrigin("preset/conflict")...)
	if !filled {
		r.gave(Origin{Kind: FromPreset})
	}
}

func (r *run) defaults() {
	mutate.Each(r.vmi, r.in.defaults(), func(pass string) { r.gave(Origin{Kind: FromDefault, Name: pass}) })
	r.errs = append(r.errs, validate.QuoteSocket(r.vmi, r.in.defaults(), nil)...)
}

// verdict is on whether what went into the guest agrees. Error paths start at the guest.
func (r *run) verdict() Verdict {
	var warnings []string
	for _, s := range r.left {
		warnings = append(warnings, s.String())
	}
	return Verdict{Errors: r.errs, Warnings: warnings}
}
