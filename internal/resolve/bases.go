package resolve

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/profile"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Bases returns what a profile extends, directly and through others, as it is now, in no particular order. What does not exist is left out: the
// caller sees it by the names. A base that cannot be read is a Refusal. The cache is read alone, and at most one profile more than may count for a VMI.
func (r Resolver) Bases(ctx context.Context, of *profile.Profile) (bases []*profile.Profile, err error) {
	open := []*profile.Profile{of}
	for len(open) > 0 && len(bases) <= profile.MaxProfiles {
		from := open[0]
		open = open[1:]
		for _, reference := range from.Spec.Extends {
			base, err := r.base(ctx, cmp.Or(reference.Kind, from.Kind), client.ObjectKey{Namespace: of.Namespace, Name: reference.Name})
			if err != nil {
				return nil, err
			}
			same := func(p *profile.Profile) bool { return p.Kind == base.Kind && p.Name == base.Name }
			if base != nil && !slices.ContainsFunc(bases, same) {
				bases, open = append(bases, base), append(open, base)
			}
		}
	}
	return bases, nil
}

// base returns a profile; nil if it does not exist.
func (r Resolver) base(ctx context.Context, kind string, key client.ObjectKey) (*profile.Profile, error) {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(kind))
	if kind != profiles.Namespaced {
		key.Namespace = ""
	}
	err := r.reader().cached().get(ctx, key, object)
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
