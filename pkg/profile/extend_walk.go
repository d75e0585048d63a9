package profile

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/kilnvm/kiln/api/v1alpha1"
)

const (
	// MaxProfiles is how many profiles count for one VMI, including those that others extend. Each is read and pinned for each VMI.
	MaxProfiles = 64
	// MaxDepth is how many profiles may extend each other in a row.
	MaxDepth = 16
)

// Why WalkExtends does not follow a reference.
var (
	ErrMissingBase  = errors.New("the base does not exist")
	ErrCycle        = errors.New("the base extends the profile in turn")
	ErrTooDeep      = fmt.Errorf("the base is more than %d profiles in a row", MaxDepth)
	ErrTooManyBases = fmt.Errorf("the base is one of more than %d profiles", MaxProfiles)
)

// Extension is a reference in spec.extends and the profile that it names.
type Extension struct {
	// Root is the index of the reference in spec.extends of the first profile that led here.
	Root int
	// Path is the way from the first profile to the one that has the reference, both included.
	Path []*Profile
	// Kind and Name are the kind and name in the reference. Base is the profile with them; nil with ErrMissingBase and with errors of the lookup.
	Kind, Name string
	Base       *Profile
}

// From returns the profile that has the reference.
func (e Extension) From() *Profile { return e.Path[len(e.Path)-1] }

// Lookup returns the profile of a kind and name; nil if it does not exist.
type Lookup func(kind, name string) (*Profile, error)

// WalkExtends follows spec.extends of a profile, directly and through others, in the order in which bases fill: depth first, each base once. With
// ErrMissingBase, ErrCycle, ErrTooDeep and ErrTooManyBases the base of an extension is not followed, and the walk continues with the next reference. An error
// of the lookup ends the walk.
func WalkExtends(first *Profile, lookup Lookup) iter.Seq2[Extension, error] {
	return func(yield func(Extension, error) bool) {
		w := extendsWalk{lookup: lookup, yield: yield, known: map[v1alpha1.ProfileReference]*Profile{}, seen: []*Profile{first}}
		w.followExtends(0, []*Profile{first})
	}
}

type extendsWalk struct {
	lookup Lookup
	yield  func(Extension, error) bool
	// known are the profiles that were looked up. A lookup may read a new copy each time, and the walk compares pointers.
	known map[v1alpha1.ProfileReference]*Profile
	seen  []*Profile
}

func (w *extendsWalk) lookUpBase(kind, name string) (*Profile, error) {
	reference := v1alpha1.ProfileReference{Kind: kind, Name: name}
	if base, found := w.known[reference]; found {
		return base, nil
	}
	base, err := w.lookup(kind, name)
	w.known[reference] = base
	return base, err
}

// followExtends follows the references of the last profile of a path. It returns false if the walk has ended.
func (w *extendsWalk) followExtends(root int, path []*Profile) bool {
	from := path[len(path)-1]
	for i, reference := range from.Spec.Extends {
		if len(path) == 1 {
			root = i
		}
		e := Extension{Root: root, Path: path, Kind: cmp.Or(reference.Kind, from.Kind), Name: reference.Name}
		var err error
		if e.Base, err = w.lookUpBase(e.Kind, e.Name); err != nil {
			w.yield(e, err)
			return false
		}
		switch {
		case e.Base == nil:
			err = ErrMissingBase
		case slices.Contains(path, e.Base):
			err = ErrCycle
		case slices.Contains(w.seen, e.Base):
			continue
		case len(path) >= MaxDepth:
			err = ErrTooDeep
		case len(w.seen) >= MaxProfiles:
			err = ErrTooManyBases
		}
		if !w.yield(e, err) {
			return false
		}
		if err != nil {
			continue
		}
		w.seen = append(w.seen, e.Base)
		if !w.followExtends(root, append(slices.Clone(path), e.Base)) {
			return false
		}
	}
	return true
}

// lookupIn looks profiles up in a list.
func lookupIn(all []*Profile) Lookup {
	return func(kind, name string) (*Profile, error) {
		i := slices.IndexFunc(all, func(p *Profile) bool { return p.Kind == kind && p.Name == name })
		if i < 0 {
			return nil, nil
		}
		return all[i], nil
	}
}
