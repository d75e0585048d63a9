package profile

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

const (
	// MaxProfiles is how many profiles count for one VMI, those that others extend included. Each is read and pinned for each VMI.
	MaxProfiles = 64
	// MaxDepth is how many profiles may extend each other in a row.
	MaxDepth = 16
	// maxErrors is how many errors of profiles one VMI gets.
	maxErrors = 64
)

// Closure returns selected profiles with all that they extend, each once: what is pinned. all are the profiles among which bases are looked up. An
// error, at metadata.labels, is a base that does not exist, a circle, or too many profiles; the list is complete but for what is missing.
func Closure(selected, all []*Profile) ([]*Profile, field.ErrorList) {
	layers, errs := layersOf(ordered(selected), all)
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

// layersOf returns, for each of the profiles, its own settings and those of its bases: depth first, each base once.
func layersOf(selected, all []*Profile) (layers []layer, errs field.ErrorList) {
	for _, p := range selected {
		if len(p.Spec.Extends) == 0 {
			layers = append(layers, layer{Source{Profile: p}, p.settings})
			continue
		}
		e := extension{of: p, all: all}
		e.visit(p)
		layers, errs = append(layers, e.layers...), append(errs, e.errs...)
	}
	return layers, errs
}

// extension is a walk over what one profile extends.
type extension struct {
	of      *Profile
	all     []*Profile
	layers  []layer
	visited []*Profile
	// path are the profiles from the first one to the one that is visited.
	path []*Profile
	errs field.ErrorList
}

func (e *extension) visit(p *Profile) {
	from := Source{Profile: e.of, Base: p}
	if p == e.of {
		from.Base = nil
	}
	e.visited, e.path = append(e.visited, p), append(e.path, p)
	e.layers = append(e.layers, layer{from, p.settings})
	for _, reference := range p.Spec.Extends {
		base := find(e.all, cmp.Or(reference.Kind, p.Kind), reference.Name)
		switch {
		case len(e.errs) > 0:
		case base == nil:
			e.fail(p, fmt.Sprintf("%s '%s', which does not exist: create it, or remove it from spec.extends", cmp.Or(reference.Kind, p.Kind), reference.Name))
		case slices.Contains(e.path, base):
			e.fail(p, base.String()+", which extends it in turn: remove one of them from spec.extends")
		case slices.Contains(e.visited, base):
		case len(e.path) >= MaxDepth:
			e.fail(p, fmt.Sprintf("%s, which is more than %d profiles in a row", base, MaxDepth))
		case len(e.visited) >= MaxProfiles:
			e.fail(p, fmt.Sprintf("%s, which is one of more than %d profiles", base, MaxProfiles))
		default:
			e.visit(base)
		}
	}
	e.path = e.path[:len(e.path)-1]
}

func (e *extension) fail(p *Profile, what string) {
	whose := ""
	if p != e.of {
		whose = e.of.String() + " selects the VMI, and "
	}
	e.errs = append(e.errs, field.Invalid(labelsPath, e.of.Name, whose+p.String()+" extends "+what).WithOrigin("profile/base"))
}

// find returns a profile by kind and name.
func find(all []*Profile, kind, name string) *Profile {
	for _, p := range all {
		if p.Kind == kind && p.Name == name {
			return p
		}
	}
	return nil
}

// ordered returns profiles by priority, the highest first, then by kind and name, without repetitions.
func ordered(profiles []*Profile) []*Profile {
	sorted := slices.Clone(profiles)
	slices.SortFunc(sorted, func(a, b *Profile) int {
		return cmp.Or(cmp.Compare(b.Spec.Priority, a.Spec.Priority), strings.Compare(a.Kind, b.Kind), strings.Compare(a.Name, b.Name),
			strings.Compare(a.Revision, b.Revision))
	})
	return slices.Compact(sorted)
}
