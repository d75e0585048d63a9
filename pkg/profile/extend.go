package profile

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// maxErrors is how many errors of profiles one VMI gets.
const maxErrors = 64

// Closure returns the selected profiles and all profiles that they extend, each once. A VM pins these. Bases are looked up in all. The errors, at
// metadata.labels, say that a base does not exist, that profiles extend each other in a circle, that a profile has no common CPU yet, or that there are too
// many; the list then contains all other profiles.
func Closure(selected, all []*Profile) ([]*Profile, field.ErrorList) {
	layers, errs := layersOf(sortByPriority(selected), all)
	closure := profilesOf(layers)
	if len(closure) > MaxProfiles {
		errs = append(errs, tooMany(closure))
	}
	return closure, errs
}

// profilesOf returns the profiles of layers, each once.
func profilesOf(layers []layer) (profiles []*Profile) {
	seen := make(map[*Profile]bool, len(layers))
	for _, l := range layers {
		if p := cmp.Or(l.from.Base, l.from.Profile); !seen[p] {
			seen[p] = true
			profiles = append(profiles, p)
		}
	}
	return profiles
}

// layersOf returns, for each of the profiles, its own settings and the settings of its bases: depth first, each base once.
func layersOf(selected, all []*Profile) (layers []layer, errs field.ErrorList) {
	for _, p := range selected {
		layers = append(layers, layer{Source{Profile: p}, p.settings})
		for e, err := range WalkExtends(p, lookupIn(all)) {
			if err != nil {
				errs = append(errs, extendsError(p, e, err))
				break
			}
			layers = append(layers, layer{Source{Profile: p, Base: e.Base}, e.Base.settings})
		}
	}
	for _, p := range profilesOf(layers) {
		if p.CommonCPUMissing {
			errs = append(errs, field.Invalid(labelsPath, p.Name, p.String()+" has no CPU yet that its nodes have in common: its condition "+
				v1alpha1.ConditionCommonCPU+" says why").WithOrigin("profile/common-cpu"))
		}
	}
	return layers, errs
}

// extendsError returns the error of a VMI that a profile selects, if one of the profile's bases cannot be followed.
func extendsError(selected *Profile, e Extension, reason error) *field.Error {
	text := fmt.Sprintf("%s extends %s '%s', ", e.From(), e.Kind, e.Name)
	switch {
	case errors.Is(reason, ErrMissingBase):
		text += "which does not exist: create it, or remove it from spec.extends"
	case errors.Is(reason, ErrCycle):
		text += "which extends it in turn: remove one of them from spec.extends"
	case errors.Is(reason, ErrTooDeep):
		text += fmt.Sprintf("which is more than %d profiles in a row", MaxDepth)
	case errors.Is(reason, ErrTooManyBases):
		text += fmt.Sprintf("which is one of more than %d profiles", MaxProfiles)
	}
	if e.From() != selected {
		text = selected.String() + " selects the VMI, and " + text
	}
	return field.Invalid(labelsPath, selected.Name, text).WithOrigin("profile/base")
}

// sortByPriority returns profiles by priority, the highest first, then by kind and name, without repetitions.
func sortByPriority(profiles []*Profile) []*Profile {
	sorted := slices.Clone(profiles)
	slices.SortFunc(sorted, func(a, b *Profile) int {
		return cmp.Or(cmp.Compare(b.Spec.Priority, a.Spec.Priority), strings.Compare(a.Kind, b.Kind), strings.Compare(a.Name, b.Name),
			strings.Compare(a.Revision, b.Revision))
	})
	return slices.Compact(sorted)
}
