package resolve

import (
	"context"
	"errors"
	"fmt"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/revision"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// grant finds what is wished for. Nil content without an error: it is not known yet, and the guest cannot start.
func (r Resolver) grant(ctx context.Context, w wish, answer *Answer) (*content, field.ErrorList, error) {
	ref := w.ref
	switch {
	case ref.inferFrom != "" && (ref.name+ref.kind != "" || !ref.hasPolicy()):
		return nil, nil, nil // what is meant is not known: validation says why
	case ref.inferFrom == "" && ref.name == "":
		return nil, field.ErrorList{field.Required(ref.path.Child("name"), "name the "+ref.field).WithOrigin("vm/matcher-name")}, nil
	case !ref.known(answer):
		return nil, nil, nil
	case ref.revision != "":
		return r.named(ctx, w, answer)
	case w.pin == v1alpha1.PinNone && ref.ignores():
		return &content{revision: v1alpha1.PinNone}, nil, nil
	}
	if found, err := r.recorded(ctx, w); err != nil || found != nil {
		return found, nil, err
	}
	found, errs, err := r.fresh(ctx, ref, answer)
	if err != nil || len(errs) > 0 {
		return nil, errs, err
	}
	now := ""
	if found != nil {
		now = found.revision
	}
	if w.foreign != "" && now != w.foreign {
		return nil, field.ErrorList{foreignPin(w.foreign)}, nil
	}
	if w.pin != "" && w.pin != now { // a dry run writes no revision, but its second call is asked for it
		answer.warn("pin '%s' was dropped: no such revision of %s", w.pin, ref)
	}
	return found, nil, nil
}

// recorded is what a pin or the status of the VM says. Nil when neither does, or a pin says what need not be honoured.
func (r Resolver) recorded(ctx context.Context, w wish) (*content, error) {
	if w.pin != "" {
		found, err := r.pinned(ctx, w)
		var untrusted *revision.Untrusted
		switch {
		case errors.As(err, &untrusted) && !w.kept: // what a backup has brought is not used if it is not what it was
		case err != nil || found != nil:
			return found, err
		case w.kept:
			return nil, w.ref.lost(w.pin)
		}
	}
	name := w.ref.statusRevision()
	if name == "" || !w.status {
		return nil, nil
	}
	found, err := r.revision(ctx, w.ref.family, client.ObjectKey{Namespace: w.ref.namespace, Name: name})
	if err == nil && found == nil {
		err = w.ref.lost(name)
	}
	if err != nil || w.ref.fits(found.source()) {
		return found, err
	}
	return nil, nil
}

// fresh is what a new pin would be: the object that the matcher names, or that its volume recommends.
func (r Resolver) fresh(ctx context.Context, ref *reference, answer *Answer) (*content, field.ErrorList, error) {
	if ref.inferFrom != "" {
		named, errs, err := r.infer(ctx, ref, answer)
		switch {
		case err != nil || len(errs) > 0:
			return nil, errs, err
		case named == nil:
			return nil, nil, nil
		case named.name == "":
			return &content{revision: v1alpha1.PinNone}, nil, nil
		case !named.known(answer):
			return nil, nil, nil
		}
		ref = named
	}
	found, err := r.live(ctx, ref)
	if found == nil && err == nil {
		kind := ref.family.Canonical(ref.kind)
		answer.lack(Missing{Path: ref.at(), Value: ref.name, Kind: kind, Namespace: ref.scope()},
			"%s '%s'%s does not exist; the guest cannot start before it does", kind, ref.name, ref.where())
	}
	return found, nil, err
}

// known tells whether the kind of a matcher is one of its family. What a user wrote is for validation to refuse; what a volume recommends is
// told, and the guest cannot start.
func (r *reference) known(answer *Answer) bool {
	if r.Canonical(r.kind) != "" {
		return true
	}
	if r.inferred {
		answer.warn("label '%s-kind' of the source of volume '%s' '%s' is unknown: use '%s', or leave it out", r.label, r.inferFrom, r.kind, r.Namespaced)
	}
	return false
}

// String is how people call what a matcher refers to.
func (r *reference) String() string {
	if r.name == "" {
		return fmt.Sprintf("what volume '%s' recommends as %s", r.inferFrom, r.field)
	}
	return fmt.Sprintf("%s '%s'", r.field, r.name)
}

// lost is the fault that a revision is gone which a guest was made from: another size must not silently take its place.
func (r *reference) lost(name string) error { return lost(name, r) }

func lost(name string, of any) error {
	return fmt.Errorf("revision '%s', which this guest was made from, does not exist any more: set annotation '%s' to '' to use the current %s",
		name, v1alpha1.AnnotationPins, of)
}

// scope is the namespace that an object was looked for in; empty if it has none.
func (r *reference) scope() string {
	if r.family.Canonical(r.kind) == r.Cluster {
		return ""
	}
	return r.namespace
}

// where says in which namespace an object was looked for, if it has one.
func (r *reference) where() string {
	if r.scope() == "" {
		return ""
	}
	return " in namespace '" + r.namespace + "'"
}

// at is the field that names the object, or the volume that recommends it.
func (r *reference) at() *field.Path {
	if r.inferred {
		return r.path.Child("inferFromVolume")
	}
	return r.path.Child("name")
}

// named is the revision that the user asks for by name. One that does not exist when it is asked for is a mistake, and so is one of another
// object. One that has gone since then leaves the guest unable to start, like an object that has gone.
func (r Resolver) named(ctx context.Context, w wish, answer *Answer) (*content, field.ErrorList, error) {
	ref := w.ref
	at := ref.path.Child("revisionName")
	found, err := r.revision(ctx, ref.family, client.ObjectKey{Namespace: ref.namespace, Name: ref.revision})
	switch {
	case err != nil:
		return nil, nil, err
	case found == nil && w.new:
		return nil, field.ErrorList{missing(at, ref)}, nil
	case found == nil:
		answer.lack(Missing{Path: at, Value: ref.revision}, "%s: revision '%s' does not exist, the guest cannot start", at, ref.revision)
	case !ref.fits(found.source()):
		return nil, field.ErrorList{field.Invalid(at, ref.revision,
			fmt.Sprintf("holds %s '%s', not %s '%s'", found.source().Kind, found.source().Name, ref.Canonical(ref.kind), ref.name)).WithOrigin("vm/revision-content")}, nil
	}
	return found, nil, nil
}

func missing(at *field.Path, ref *reference) *field.Error {
	err := field.NotFound(at, ref.revision).WithOrigin("vm/revision-missing")
	err.Detail = fmt.Sprintf("namespace '%s' has no such revision of %s: create it first, or leave revisionName out", ref.namespace, ref)
	return err
}

// pinned resolves a pin: the cached revision, else a live object of just that content, else the API server. Nil when no
// such revision exists here, or it is of another object.
func (r Resolver) pinned(ctx context.Context, w wish) (*content, error) {
	key := client.ObjectKey{Namespace: w.ref.namespace, Name: w.pin}
	cached := Resolver{Cached: r.Cached, Memo: r.Memo}
	found, err := cached.revision(ctx, w.ref.family, key)
	if err == nil && found == nil && w.ref.name != "" {
		if found, err = cached.live(ctx, w.ref); found != nil && found.revision != w.pin {
			found = nil
		}
	}
	if err == nil && found == nil && r.Live != nil {
		found, err = Resolver{Cached: r.Live, Memo: r.Memo}.revision(ctx, w.ref.family, key)
	}
	if err != nil || found == nil || !w.ref.fits(found.source()) {
		return nil, err
	}
	return found, nil
}
