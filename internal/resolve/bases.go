package resolve

import (
	"context"
	"errors"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/profile"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Bases returns the current profiles that a profile extends, directly and through others. They include a base at which profile.WalkExtends ends;
// profile.Judge reports why it ends there. Bases that do not exist are left out: the caller finds them by their names. A base that cannot be read is a
// Refusal. Bases reads only the cache, and at most one profile more than may count for a VMI.
func (r Resolver) Bases(ctx context.Context, of *profile.Profile) (bases []*profile.Profile, err error) {
	lookup := func(kind, name string) (*profile.Profile, error) {
		if kind == of.Kind && name == of.Name {
			return of, nil // the profile of the request, not the stored one
		}
		return r.readBase(ctx, kind, client.ObjectKey{Namespace: of.Namespace, Name: name})
	}
	for extended, err := range profile.WalkExtends(of, lookup) {
		switch {
		case errors.Is(err, profile.ErrMissingBase), errors.Is(err, profile.ErrCycle):
		case errors.Is(err, profile.ErrTooManyBases):
			return append(bases, extended.Base), nil
		case err == nil, errors.Is(err, profile.ErrTooDeep):
			bases = append(bases, extended.Base)
		default:
			return nil, err
		}
	}
	return bases, nil
}

// readBase returns a profile from the cache; nil if it does not exist.
func (r Resolver) readBase(ctx context.Context, kind string, key client.ObjectKey) (*profile.Profile, error) {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(kind))
	if kind != profiles.Namespaced {
		key.Namespace = ""
	}
	err := r.reader().fromCache().getObject(ctx, key, object)
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(errors.Unwrap(err)) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	read, err := r.reader().readProfile(object)
	if err == nil && read.unreadable != "" {
		at := field.NewPath("spec", "extends")
		err = &Refusal{field.ErrorList{field.Invalid(at, key.Name, read.unreadable).WithOrigin("profile/unreadable")}}
	}
	if err != nil {
		return nil, err
	}
	return read.Profile, nil
}
