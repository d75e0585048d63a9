package profile

import (
	"reflect"

	"github.com/kilnvm/kiln/pkg/fieldpath"
	"github.com/kilnvm/kiln/pkg/internal/filled"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// Plan is what the profiles that select a VMI fill in it.
type Plan struct {
	settings []plannedSetting
}

// plannedSetting is a setting with its source.
type plannedSetting struct {
	*setting
	from Source
}

// Source is where a value comes from: a profile that selects the VMI, and, if the value is not in its own template, the base that has it.
type Source struct {
	*Profile
	// Base is nil for a value of the profile's own template.
	Base *Profile
}

// String names the profile, and the base if there is one, for a message.
func (s Source) String() string {
	if s.Base == nil {
		return s.Profile.String()
	}
	return s.Profile.String() + " (by " + s.Base.String() + ", which it extends)"
}

// Observer is notified of what a plan fills. Both fields may be nil.
type Observer struct {
	// Log notes each field.
	Log *filled.Log
	// After is called after the settings of each source, even if none of them was filled.
	After func(Source)
}

// Fill fills what the VMI leaves unset from the profiles that select it. all are the profiles of its namespace and their bases, in any order. If there are
// errors, the VMI is unchanged. The VMI shares no memory with the profiles.
func Fill(all []*Profile, vmi *v1.VirtualMachineInstance, by Observer) field.ErrorList {
	plan, errs := PlanFor(all, vmi)
	if len(errs) > 0 {
		return errs
	}
	if plan != nil {
		plan.Attach(vmi, by)
		plan.Fill(vmi, by)
	}
	return nil
}

// Example returns a VMI that has what the plan would fill in an empty one.
func (p *Plan) Example() *v1.VirtualMachineInstance {
	vmi := &v1.VirtualMachineInstance{}
	p.Fill(vmi, Observer{})
	return vmi
}

// Exclude removes the fields at and below paths from the plan.
func (p *Plan) Exclude(paths []string) {
	if len(paths) == 0 {
		return
	}
	fields := make([][]fieldpath.Step, len(paths))
	for i, path := range paths {
		fields[i] = fieldpath.Parse(path)
	}
	kept := p.settings[:0]
	for _, s := range p.settings {
		if !s.isWithin(fields) {
			kept = append(kept, s)
		}
	}
	p.settings = kept
}

// isWithin reports whether the setting is at or below one of the fields. Errors name the key of a map as an element or as a field.
func (s *setting) isWithin(fields [][]fieldpath.Step) bool {
	steps := fieldpath.Parse(s.path)
	for _, f := range fields {
		below := len(steps) >= len(f)
		for i := 0; below && i < len(f); i++ {
			below = steps[i].Text == f[i].Text
		}
		if below {
			return true
		}
	}
	return false
}

// Attach adds the devices that the VMI lacks, with only their kinds, and fills the fields by which a VMI has devices without naming them, such as
// autoattachInputDevice. It runs before a preference gives devices their models, and before the defaults for VMIs without devices.
func (p *Plan) Attach(vmi *v1.VirtualMachineInstance, by Observer) {
	root := reflect.ValueOf(vmi).Elem()
	added := map[string]bool{}
	var own, members []plannedSetting
	for _, s := range p.settings {
		switch {
		case !s.device:
		case s.element == "" || s.element == s.path:
			own = append(own, s)
		default:
			members = append(members, s)
		}
	}
	visitSettings(own, by, func(s *setting) {
		if s.fillVMI(root, by.Log) {
			added[s.path] = true
		}
	})
	visitSettings(members, by, func(s *setting) {
		if added[s.element] {
			s.fillVMI(root, by.Log)
		}
	})
}

// Fill fills all other fields. It runs after instancetype, preference and presets.
func (p *Plan) Fill(vmi *v1.VirtualMachineInstance, by Observer) {
	root := reflect.ValueOf(vmi).Elem()
	var filled []string
	leave := impliesMemory(&vmi.Spec.Domain)
	visitSettings(p.settings, by, func(s *setting) {
		if leave && (s.path == memory || s.path == guestMemory) || !s.fillVMI(root, by.Log) {
			return
		}
		if key, isLabel := s.labelKey(); isLabel {
			filled = append(filled, key)
		}
	})
	recordLabels(vmi, filled)
}

// A template's 'memory: {}' is a setting of its own, at path memory. If memory.guest is left out, memory is left out too, so that a profile fills the same
// whether a base or its own template has memory.guest.
const (
	memory      = "spec.domain.memory"
	guestMemory = memory + ".guest"
)

// impliesMemory reports whether the VMI has memory that is stated for its pod: memory.guest follows from it (mutate), as in manifests that are older
// than the field. A profile must not shrink such a VMI.
func impliesMemory(domain *v1.DomainSpec) bool {
	_, requested := domain.Resources.Requests[corev1.ResourceMemory]
	_, limited := domain.Resources.Limits[corev1.ResourceMemory]
	return requested || limited
}

// visitSettings visits settings, and calls the observer after the last setting of each source.
func visitSettings(settings []plannedSetting, by Observer, visit func(*setting)) {
	for i, s := range settings {
		visit(s.setting)
		if by.After != nil && (i+1 == len(settings) || settings[i+1].from != s.from) {
			by.After(s.from)
		}
	}
}
