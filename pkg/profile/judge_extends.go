package profile

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/nearest"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Missing is a base that does not exist. It may be created later: GitOps applies objects in any order.
type Missing struct {
	// Path is the reference of the judged profile that leads to it.
	Path            *field.Path
	Kind, Namespace string
	Name            string
	// Through is the base that extends it; empty where the judged profile does.
	Through string
}

// String returns the text of the warning.
func (m Missing) String() string {
	text := fmt.Sprintf("%s: %s does not exist", m.Path, called(m.Kind, nearest.Short(m.Name)))
	if m.Through != "" {
		text += ", which " + m.Through + " extends"
	}
	return text + ": until it does, new VMIs that the profile selects are refused"
}

// called returns kind and name as messages call a profile.
func called(kind, name string) string { return kind + " '" + name + "'" }

// lineage is the walk over the bases of one profile.
type lineage struct {
	of    *Profile
	all   []*Profile
	at    *field.Path
	bases []*Profile
	// until has for each reference of the profile how many of the bases it and the references before it lead to.
	until   []int
	missing []Missing
	errs    field.ErrorList
}

// lineageOf finds the bases of a profile among all, in the order in which they fill. Of a profile that exists already,
// the new state counts.
func lineageOf(p *Profile, all []*Profile) *lineage {
	l := &lineage{of: p, all: all}
	for i, base := range p.Spec.Extends {
		l.at = specPath.Child("extends").Index(i).Child("name")
		l.visit(p, base, []*Profile{p})
		l.until = append(l.until, len(l.bases))
	}
	return l
}

// visit follows one reference. above are the profiles that lead to it, from the judged one on.
func (l *lineage) visit(from *Profile, reference v1alpha1.ProfileReference, above []*Profile) {
	kind := cmp.Or(reference.Kind, from.Kind)
	base := l.find(kind, reference.Name)
	if base == nil {
		missing := Missing{Path: l.at, Kind: kind, Name: reference.Name}
		if missing.Kind == v1alpha1.KindGuestProfile {
			missing.Namespace = l.of.Namespace // what is read from a revision has none
		}
		if from != l.of {
			missing.Through = from.String()
		}
		if !slices.Contains(l.missing, missing) {
			l.missing = append(l.missing, missing)
		}
		return
	}
	if first := slices.Index(above, base); first >= 0 {
		l.errs = append(l.errs, field.Invalid(l.at, reference.Name,
			"leads in a circle: "+chain(append(slices.Clone(above[first:]), base))).WithOrigin("profile/circular"))
		return
	}
	if slices.Contains(l.bases, base) {
		return
	}
	l.bases = append(l.bases, base)
	switch {
	case len(above) >= MaxDepth:
		l.errs = append(l.errs, field.Invalid(l.at, reference.Name,
			fmt.Sprintf("leads to more than %d profiles in a row", MaxDepth)).WithOrigin("profile/extends-depth"))
		return
	case len(l.bases) >= MaxProfiles:
		l.errs = append(l.errs, field.Invalid(l.at, reference.Name,
			fmt.Sprintf("is one of more than %d profiles in all", MaxProfiles)).WithOrigin("profile/extends-count"))
		return
	}
	for _, next := range base.Spec.Extends {
		if len(l.errs) > 0 {
			return
		}
		l.visit(base, next, append(slices.Clone(above), base))
	}
}

// find returns the judged profile itself in the state that is written.
func (l *lineage) find(kind, name string) *Profile {
	if kind == l.of.Kind && name == l.of.Name {
		return l.of
	}
	return find(l.all, kind, name)
}

// chain names profiles that extend each other, MaxDepth at most.
func chain(profiles []*Profile) string {
	var names []string
	for _, p := range profiles {
		names = append(names, p.String())
	}
	return strings.Join(names, " extends ")
}
