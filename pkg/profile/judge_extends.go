package profile

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/nearest"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Missing is a base that does not exist. It may be created later: GitOps applies objects in any order.
type Missing struct {
	// Path is the field of the judged profile with the reference that leads to the missing base.
	Path            *field.Path
	Kind, Namespace string
	Name            string
	// Through is the base that extends the missing one; empty if the judged profile extends it.
	Through string
}

// String returns the text of the warning.
func (m Missing) String() string {
	text := fmt.Sprintf("%s: %s does not exist", m.Path, kindAndName(m.Kind, nearest.Short(m.Name)))
	if m.Through != "" {
		text += ", which " + m.Through + " extends"
	}
	return text + ": until it does, new VMIs that the profile selects are refused"
}

// kindAndName returns kind and name as messages call a profile.
func kindAndName(kind, name string) string { return kind + " '" + name + "'" }

// lineage is a profile with what it extends.
type lineage struct {
	of *Profile
	// bases are in the order in which they fill.
	bases   []Extension
	missing []Missing
	// errs has at most one error for each reference of the profile.
	errs field.ErrorList
}

// lineageOf finds the bases of a profile in all. all may contain the stored state of the profile: the state that is judged replaces it.
func lineageOf(p *Profile, all []*Profile) *lineage {
	l := &lineage{of: p}
	for e, err := range WalkExtends(p, lookupIn(append([]*Profile{p}, all...))) {
		at := specPath.Child("extends").Index(e.Root).Child("name")
		switch {
		case err == nil:
			l.bases = append(l.bases, e)
		case errors.Is(err, ErrMissingBase):
			l.addMissing(at, e)
		case errors.Is(err, ErrCycle):
			circle := slices.Concat(e.Path[slices.Index(e.Path, e.Base):], []*Profile{e.Base})
			l.addError(field.Invalid(at, e.Name, "leads in a circle: "+describeChain(circle)).WithOrigin("profile/circular"))
		case errors.Is(err, ErrTooDeep):
			l.addError(field.Invalid(at, e.Name, fmt.Sprintf("leads to more than %d profiles in a row", MaxDepth)).WithOrigin("profile/extends-depth"))
		case errors.Is(err, ErrTooManyBases):
			l.addError(field.Invalid(at, e.Name, fmt.Sprintf("is one of more than %d profiles in all", MaxProfiles)).WithOrigin("profile/extends-count"))
		}
	}
	return l
}

// baseProfiles returns the bases as profiles.
func (l *lineage) baseProfiles() (bases []*Profile) {
	for _, e := range l.bases {
		bases = append(bases, e.Base)
	}
	return bases
}

func (l *lineage) addMissing(at *field.Path, e Extension) {
	missing := Missing{Path: at, Kind: e.Kind, Name: e.Name}
	if missing.Kind == v1alpha1.KindGuestProfile {
		missing.Namespace = l.of.Namespace // what is read from a revision has none
	}
	if e.From() != l.of {
		missing.Through = e.From().String()
	}
	if !slices.ContainsFunc(l.missing, func(m Missing) bool { return m.String() == missing.String() }) {
		l.missing = append(l.missing, missing)
	}
}

// addError adds an error, unless the same reference of the profile has one.
func (l *lineage) addError(err *field.Error) {
	if n := len(l.errs); n == 0 || l.errs[n-1].Field != err.Field {
		l.errs = append(l.errs, err)
	}
}

// describeChain names profiles that extend each other, MaxDepth at most.
func describeChain(profiles []*Profile) string {
	var names []string
	for _, p := range profiles {
		names = append(names, p.String())
	}
	return strings.Join(names, " extends ")
}
