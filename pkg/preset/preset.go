// Package preset says which VirtualMachineInstancePresets match a guest, whether they agree, and what they fill. A preset
// fills only what user, size and preference left unset, in the eight areas that KubeVirt's presets ever had: CPU and memory
// requests, cpu, firmware, clock offset, timers, features, watchdog, IO threads policy.
package preset

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kilnvm/kiln/pkg/internal/filled"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// Annotations of KubeVirt's presets.
const (
	// Exclude on a VMI, with the value "true", keeps all presets away.
	Exclude = "virtualmachineinstancepresets.admission.kubevirt.io/exclude"
	// appliedPrefix and the preset's name mark a VMI that got something from it.
	appliedPrefix = "virtualmachinepreset.kubevirt.io/"
)

// area is one thing that a preset can set. given and set compare and copy it as a whole.
type area struct {
	name string
	// values of the area, by key; a single one has the empty key.
	values func(*v1.DomainSpec) map[string]any
	// fill copies the area from a preset's domain where the guest has none, and tells whether it has it now.
	fill func(guest, preset *v1.DomainSpec, key string)
}

// Skipped is a field of a preset that was not applied.
type Skipped struct {
	Preset string
	// Field is a path of the preset and of the guest alike, e.g. spec.domain.cpu.
	Field, Reason string
}

func (s Skipped) String() string {
	return fmt.Sprintf("preset '%s': %s not applied, %s", s.Preset, s.Field, s.Reason)
}

// Observer learns what Fill does. Both may be nil.
type Observer struct {
	// Log notes what presets fill.
	Log *filled.Log
	// After is called after each preset that matches.
	After func(name string)
}

// Fill fills matching presets, in name order, into the guest, and annotates it with those applied. Errors are
// invalid selectors and presets that disagree: nothing is filled then. Each preset field that was not applied is returned, and why.
func Fill(presets []v1.VirtualMachineInstancePreset, vmi *v1.VirtualMachineInstance, by Observer) (skipped []Skipped, errs field.ErrorList) {
	matching, errs := match(presets, vmi)
	if errs = append(errs, disagreements(matching)...); len(errs) > 0 {
		return nil, errs
	}
	for _, p := range matching {
		skipped = append(skipped, fill(p, vmi, by.Log)...)
		if by.After != nil {
			by.After(p.Name)
		}
	}
	return skipped, nil
}

// fill fills a copy of one preset, of which the guest may keep every part, into the guest.
func fill(p v1.VirtualMachineInstancePreset, vmi *v1.VirtualMachineInstance, log *filled.Log) (skipped []Skipped) {
	name, domain := p.Name, p.Spec.Domain.DeepCopy()
	applied := vmi.Annotations[appliedPrefix+name] != "" // before: what it gave has got defaults since then, and no longer looks like it
	again := applied
	for _, a := range areas {
		theirs, has := a.values(domain), a.values(&vmi.Spec.Domain)
		for _, key := range keys(theirs) {
			have, found := has[key]
			switch {
			case !found:
				a.fill(&vmi.Spec.Domain, domain, key)
				a.note(log, key, theirs[key])
				applied = true
			case same(have, theirs[key]):
				applied = true
			case !again:
				skipped = append(skipped, Skipped{name, a.path(key), "the guest already has one"})
			}
		}
	}
	if applied {
		mark(vmi, name)
	}
	return append(skipped, ignored(name, domain)...)
}

// Match returns the presets that Fill would fill in, in name order.
func Match(presets []v1.VirtualMachineInstancePreset, vmi *v1.VirtualMachineInstance) ([]v1.VirtualMachineInstancePreset, field.ErrorList) {
	return match(presets, vmi)
}

// MaxMatching is the number of presets that may match one guest. Each is read and pinned for each guest, and anybody who may write
// presets in a namespace can write one that matches all guests there.
const MaxMatching = 64

// match returns the presets whose selector matches the guest's labels, in name order. An invalid selector of any preset is
// an error: whether it was meant for this guest cannot be known. So are more than MaxMatching presets.
func match(presets []v1.VirtualMachineInstancePreset, vmi *v1.VirtualMachineInstance) (matching []v1.VirtualMachineInstancePreset, errs field.ErrorList) {
	if vmi.Annotations[Exclude] == "true" {
		return nil, nil
	}
	for _, p := range presets {
		selector, err := metav1.LabelSelectorAsSelector(&p.Spec.Selector)
		if err != nil {
			if errs = append(errs, field.Invalid(labelsPath, p.Name,
				fmt.Sprintf("preset '%s' has an invalid selector: %s", p.Name, short(err.Error())))); len(errs) == maxMistakes {
				return nil, errs
			}
			continue
		}
		if p.Spec.Domain != nil && selector.Matches(labels.Set(vmi.Labels)) {
			matching = append(matching, p)
		}
	}
	slices.SortFunc(matching, func(a, b v1.VirtualMachineInstancePreset) int { return strings.Compare(a.Name, b.Name) })
	if len(matching) > MaxMatching {
		many := field.TooMany(labelsPath, len(matching), MaxMatching)
		many.BadValue, many.Detail = field.OmitValueType{}, fmt.Sprintf("%d presets match, at most %d are allowed: %s; change the labels so that fewer match",
			len(matching), MaxMatching, names(matching))
		return nil, append(errs, many)
	}
	return matching, errs
}

// labelsPath is what selects presets, and what the user can change.
var labelsPath = field.NewPath("metadata", "labels")

// names are those of presets in one text of about maxText bytes.
func names(presets []v1.VirtualMachineInstancePreset) string {
	text := "'" + presets[0].Name + "'"
	for i, p := range presets[1:] {
		if len(text) > maxText {
			return fmt.Sprintf("%s and %d more", text, len(presets)-1-i)
		}
		text += ", '" + p.Name + "'"
	}
	return text
}

// maxMistakes is the number of presets' mistakes that are told of one guest.
const maxMistakes = 64

// disagreements compares each area of a preset with the first preset that sets it: one error for each later one that sets another
// value. Two that disagree are refused even where the guest has a value of its own, as in KubeVirt: which of them the next guest
// would get is a matter of names.
func disagreements(matching []v1.VirtualMachineInstancePreset) (errs field.ErrorList) {
	type setting struct {
		preset string
		value  any
	}
	first := map[string]setting{} // by path
	for _, p := range matching {
		for _, a := range areas {
			values := a.values(p.Spec.Domain)
			for _, key := range keys(values) {
				path, value := a.path(key), values[key]
				was, set := first[path]
				if !set {
					first[path] = setting{p.Name, value}
				} else if !same(was.value, value) && len(errs) < maxMistakes {
					errs = append(errs, field.Invalid(labelsPath, was.preset+", "+p.Name, fmt.Sprintf(
						"presets '%s' and '%s' disagree on %s: %s and %s; change the labels so that one of them matches",
						was.preset, p.Name, path, print(was.value), print(value))))
				}
			}
		}
	}
	slices.SortStableFunc(errs, func(a, b *field.Error) int { return strings.Compare(a.Detail, b.Detail) })
	return errs
}

func mark(vmi *v1.VirtualMachineInstance, name string) {
	if vmi.Annotations == nil {
		vmi.Annotations = map[string]string{}
	}
	vmi.Annotations[appliedPrefix+name] = v1.GroupVersion.String()
}
