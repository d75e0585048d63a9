// Package preset finds the VirtualMachineInstancePresets that match a VMI, and applies them unless two of them disagree. A preset fills only what the user, the
// instancetype and the preference left unset, in the eight areas of KubeVirt's mergeDomainSpec: requests, cpu, firmware, clock offset, timers, features,
// watchdog, ioThreadsPolicy. KubeVirt applies presets in the order of a map; Kiln applies them in the order of their names.
package preset

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kilnvm/kiln/pkg/internal/filled"
	"github.com/kilnvm/kiln/pkg/internal/message"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// Annotations of KubeVirt's presets.
const (
	// Exclude is on VMIs. With the value "true" no preset is applied.
	Exclude = "virtualmachineinstancepresets.admission.kubevirt.io/exclude"
	// AppliedPrefix, followed by the name of a preset, is on VMIs to which the preset was applied.
	AppliedPrefix = "virtualmachinepreset.kubevirt.io/"
)

// area is a part of the domain that a preset can set. Its values are compared and copied as a whole.
type area struct {
	// name is the path of the area below spec.domain.
	name string
	// values returns the values in the area by key: one value with an empty key, or the requests by resource.
	values func(*v1.DomainSpec) map[string]any
	// fill copies the value of a key from the preset's domain into the VMI's domain, which has no such value.
	fill func(vmi, preset *v1.DomainSpec, key string)
}

// Skipped is a field of a matching preset that was not applied. Kiln warns about it; KubeVirt does not.
type Skipped struct {
	Preset string
	// Field is a path in the preset and in the VMI, such as spec.domain.cpu. Reason completes the sentence "not applied, ...".
	Field, Reason string
}

// String returns the text of the warning.
func (s Skipped) String() string {
	return fmt.Sprintf("preset '%s': %s not applied, %s", s.Preset, s.Field, s.Reason)
}

// Observer observes Fill. Both fields may be nil.
type Observer struct {
	// Log notes the fields that presets fill.
	Log *filled.Log
	// After is called after each preset that matches.
	After func(name string)
}

// Fill applies the matching presets in the order of their names, and adds the annotation of each applied preset (applyPresets, annotateVMI in KubeVirt). It
// returns the fields of presets that were not applied. If Match returns errors or presets disagree, it returns errors, all at metadata.labels, and does not
// change the VMI.
func Fill(presets []v1.VirtualMachineInstancePreset, vmi *v1.VirtualMachineInstance, by Observer) (skipped []Skipped, errs field.ErrorList) {
	matching, errs := Match(presets, vmi)
	if errs = append(errs, findDisagreements(matching)...); len(errs) > 0 {
		return nil, errs
	}
	for _, p := range matching {
		skipped = append(skipped, fillPreset(p, vmi, by.Log)...)
		if by.After != nil {
			by.After(p.Name)
		}
	}
	return skipped, nil
}

// fillPreset applies one preset (mergeDomainSpec). The domain is a copy, because the VMI keeps parts of it.
//
// A VMI with the preset's annotation was filled before, by this webhook or by KubeVirt. Since then defaults were added to its values, so that they differ from
// the preset's. They are not reported as skipped.
func fillPreset(p v1.VirtualMachineInstancePreset, vmi *v1.VirtualMachineInstance, log *filled.Log) (skipped []Skipped) {
	name, domain := p.Name, p.Spec.Domain.DeepCopy()
	applied := vmi.Annotations[AppliedPrefix+name] != ""
	again := applied
	for _, a := range areas {
		wanted, given := a.values(domain), a.values(&vmi.Spec.Domain)
		for _, key := range sortedKeys(wanted) {
			value, found := given[key]
			switch {
			case !found:
				a.fill(&vmi.Spec.Domain, domain, key)
				a.noteFilled(log, key, wanted[key])
				applied = true
			case sameValue(value, wanted[key]):
				applied = true
			case !again:
				skipped = append(skipped, Skipped{name, a.pathOf(key), "the guest already has one"})
			}
		}
	}
	if applied {
		annotateApplied(vmi, name)
	}
	return append(skipped, uncoveredFields(name, domain)...)
}

// MaxMatching is the number of presets that may match one VMI. Each preset is read and pinned for each VMI, and a user who may write presets in a namespace can
// make all of them match all VMIs. KubeVirt has no limit.
const MaxMatching = 64

// Match returns the presets that Fill would apply, in the order of their names. It returns errors for invalid selectors and for more than MaxMatching presets,
// all at metadata.labels. It is KubeVirt's filterPresets: an invalid selector of any preset in the namespace is an error, because the preset may be meant for
// this VMI, and a preset without a domain sets nothing and does not count.
func Match(
	presets []v1.VirtualMachineInstancePreset, vmi *v1.VirtualMachineInstance,
) (matching []v1.VirtualMachineInstancePreset, errs field.ErrorList) {
	if vmi.Annotations[Exclude] == "true" {
		return nil, nil
	}
	for _, p := range presets {
		selector, err := metav1.LabelSelectorAsSelector(&p.Spec.Selector)
		if err != nil {
			if errs = append(errs, field.Invalid(labelsPath, p.Name,
				fmt.Sprintf("preset '%s' has an invalid selector: %s", p.Name, message.Short(err.Error())))); len(errs) == maxMistakes {
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
			len(matching), MaxMatching, message.Names(matching, func(p v1.VirtualMachineInstancePreset) string { return p.Name }))
		return nil, append(errs, many)
	}
	return matching, errs
}

// labelsPath is the field of all errors: labels select presets, and the owner of a VMI can change them.
var labelsPath = field.NewPath("metadata", "labels")

// maxMistakes is the largest number of errors about presets of one VMI.
const maxMistakes = 64

// findDisagreements is KubeVirt's checkPresetConflicts: it compares each area of a preset with the first preset that sets the area, and returns an error for
// each other value. Presets that disagree are refused even if the VMI sets the area, as in KubeVirt, because the next VMI would get one of two values by the
// order of names.
func findDisagreements(matching []v1.VirtualMachineInstancePreset) (errs field.ErrorList) {
	type setting struct {
		preset string
		value  any
	}
	first := map[string]setting{} // by path
	for _, p := range matching {
		for _, a := range areas {
			values := a.values(p.Spec.Domain)
			for _, key := range sortedKeys(values) {
				path, value := a.pathOf(key), values[key]
				was, set := first[path]
				if !set {
					first[path] = setting{p.Name, value}
				} else if !sameValue(was.value, value) && len(errs) < maxMistakes {
					errs = append(errs, field.Invalid(labelsPath, was.preset+", "+p.Name, fmt.Sprintf(
						"presets '%s' and '%s' disagree on %s: %s and %s; change the labels so that one of them matches",
						was.preset, p.Name, path, message.Value(was.value), message.Value(value))))
				}
			}
		}
	}
	slices.SortStableFunc(errs, func(a, b *field.Error) int { return strings.Compare(a.Detail, b.Detail) })
	return errs
}

// annotateApplied adds the annotation by which KubeVirt shows that a preset was applied (annotateVMI).
func annotateApplied(vmi *v1.VirtualMachineInstance, name string) {
	if vmi.Annotations == nil {
		vmi.Annotations = map[string]string{}
	}
	vmi.Annotations[AppliedPrefix+name] = v1.GroupVersion.String()
}
