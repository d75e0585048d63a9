package resolve

import (
	"context"
	"errors"
	"fmt"

	"github.com/kilnvm/kiln/internal/revision"
	"github.com/kilnvm/kiln/pkg/instancetype"
	"github.com/kilnvm/kiln/pkg/pipeline"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"kubevirt.io/api/instancetype/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// content is one size or preference, from a revision or from a live object.
type content struct {
	size       *instancetype.Instancetype
	preference *instancetype.Preference
	revision   string
	// draft is set when the revision does not exist yet.
	draft *revision.Draft
}

func (c *content) source() instancetype.Source {
	if c.size != nil {
		return c.size.Source
	}
	return c.preference.Source
}

// grant finds what is wished for. Nil content without an error: it is not known yet, and the guest cannot start.
func (r Resolver) grant(ctx context.Context, w wish, answer *Answer) (*content, field.ErrorList, error) {
	if errs := w.ref.check(); len(errs) > 0 {
		return nil, errs, nil
	}
	if w.ref.family.kind(w.ref.kind) == "" {
		answer.warn("%s: kind '%s' is unknown, use '%s' or '%s'; the guest cannot start", w.ref.path.Child("kind"), w.ref.kind, w.ref.namespaced, w.ref.cluster)
		return nil, nil, nil
	}
	if w.ref.revision != "" {
		return r.named(ctx, w.ref, answer)
	}
	if w.pin != "" {
		found, err := r.pinned(ctx, w)
		var untrusted *revision.Untrusted
		if errors.As(err, &untrusted) && !w.kept {
			found, err = nil, nil // what a backup has brought is not used if it is not what it was
		}
		if err != nil || found != nil {
			return found, nil, err
		}
		if w.kept {
			return nil, nil, w.ref.lost(w.pin)
		}
		answer.warn("pin '%s' was dropped: no such revision of %s '%s' in namespace '%s'", w.pin, w.ref.field, w.ref.name, w.ref.namespace)
	}
	if name := w.ref.statusRevision(); name != "" && w.status {
		found, err := r.revision(ctx, w.ref.family, client.ObjectKey{Namespace: w.ref.namespace, Name: name})
		if err == nil && found == nil {
			err = w.ref.lost(name)
		}
		if err != nil || w.ref.fits(found.source()) {
			return found, nil, err
		}
	}
	found, err := r.live(ctx, w.ref)
	if err != nil {
		return nil, nil, err
	}
	if w.foreign != "" && (found == nil || found.revision != w.foreign) {
		return nil, field.ErrorList{foreignPin(w.foreign)}, nil
	}
	if found == nil {
		answer.warn("%s '%s'%s does not exist; the guest cannot start before it does", w.ref.family.kind(w.ref.kind), w.ref.name, w.ref.where())
	}
	return found, nil, nil
}

// lost is the fault that a revision is gone which a guest was made from: another size must not silently take its place.
func (r *reference) lost(name string) error {
	return fmt.Errorf("revision '%s', which this guest was made from, does not exist any more: set annotation '%s' to '' to use the current %s '%s'",
		name, pipeline.AnnotationPins, r.field, r.name)
}

// check refuses matchers that cannot be resolved whatever the cluster holds.
func (r *reference) check() field.ErrorList {
	switch {
	case r.inferFrom != "":
		return field.ErrorList{field.Forbidden(r.path.Child("inferFromVolume"), fmt.Sprintf("inference from volume '%s' is not supported yet: give name and kind", r.inferFrom))}
	case r.name == "":
		return field.ErrorList{field.Required(r.path.Child("name"), "name the "+r.field)}
	}
	return nil
}

// where says in which namespace an object was looked for, if it has one.
func (r *reference) where() string {
	if r.family.kind(r.kind) == r.cluster {
		return ""
	}
	return " in namespace '" + r.namespace + "'"
}

// named is the revision that the user asks for by name. One that does not exist leaves the guest unable to start, like
// an object that does not exist; one of another object is a mistake.
func (r Resolver) named(ctx context.Context, ref *reference, answer *Answer) (*content, field.ErrorList, error) {
	found, err := r.revision(ctx, ref.family, client.ObjectKey{Namespace: ref.namespace, Name: ref.revision})
	switch {
	case err != nil:
		return nil, nil, err
	case found == nil:
		answer.warn("%s: revision '%s' does not exist in namespace '%s'; the guest cannot start before it does", ref.path.Child("revisionName"), ref.revision, ref.namespace)
	case !ref.fits(found.source()):
		return nil, field.ErrorList{field.Invalid(ref.path.Child("revisionName"), ref.revision,
			fmt.Sprintf("holds %s '%s', not %s '%s'", found.source().Kind, found.source().Name, ref.family.kind(ref.kind), ref.name))}, nil
	}
	return found, nil, nil
}

// pinned resolves a pin: the cached revision, else a live object of just that content, else the API server. Nil when no
// such revision exists here, or it is of another object.
func (r Resolver) pinned(ctx context.Context, w wish) (*content, error) {
	key := client.ObjectKey{Namespace: w.ref.namespace, Name: w.pin}
	cached := Resolver{Cached: r.Cached, Memo: r.Memo}
	found, err := cached.revision(ctx, w.ref.family, key)
	if err == nil && found == nil {
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

// revision reads a revision and verifies it. Nil when it does not exist or is of the other family.
func (r Resolver) revision(ctx context.Context, f family, key client.ObjectKey) (*content, error) {
	var stored appsv1.ControllerRevision
	if err := r.get(ctx, key, &stored); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	return recall(r.Memo, &stored, f.field, func() (*content, error) { return trusted(f, &stored) })
}

// trusted verifies and reads a revision.
func trusted(f family, stored *appsv1.ControllerRevision) (*content, error) {
	if err := revision.Verify(stored); err != nil {
		return nil, err
	}
	found, err := read(f, stored.Name, stored.Data.Raw)
	if found != nil && revision.Marked(stored) {
		// The collector is about to remove it, so that it counts as missing: writing it takes the mark away.
		found.draft = &revision.Draft{Namespace: stored.Namespace, Snapshot: instancetype.Snapshot{Name: stored.Name, Data: stored.Data.Raw}, Labels: stored.Labels}
	}
	return found, err
}

// read decodes a snapshot of the family. Nil when it is of the other one.
func read(f family, name string, data []byte) (*content, error) {
	var object unstructured.Unstructured
	if err := object.UnmarshalJSON(data); err != nil {
		return nil, fmt.Errorf("reading revision '%s': %w", name, err)
	}
	if f.kind(object.GetKind()) == "" {
		return nil, nil
	}
	var err error
	found := &content{revision: name}
	if f.field == sizes.field {
		found.size, err = instancetype.ReadInstancetype(name, data)
	} else {
		found.preference, err = instancetype.ReadPreference(name, data)
	}
	if err != nil {
		return nil, fmt.Errorf("reading revision '%s': %w", name, err)
	}
	return found, nil
}

// live is the object that a matcher names, as its snapshot. Nil when it does not exist.
func (r Resolver) live(ctx context.Context, ref *reference) (*content, error) {
	object := &unstructured.Unstructured{}
	kind := ref.family.kind(ref.kind)
	object.SetGroupVersionKind(v1beta1.SchemeGroupVersion.WithKind(kind))
	key := client.ObjectKey{Name: ref.name}
	if kind == ref.namespaced {
		key.Namespace = ref.namespace
	}
	if err := r.get(ctx, key, object); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	draft, err := r.draft(ref.namespace, object)
	if err != nil {
		return nil, err
	}
	known, err := Resolver{Cached: r.Cached, Memo: r.Memo}.revision(ctx, ref.family, client.ObjectKey{Namespace: ref.namespace, Name: draft.Name})
	if err != nil || known != nil {
		return known, err
	}
	found, err := read(ref.family, draft.Name, draft.Data)
	if found != nil {
		found.draft = &draft
	}
	return found, err
}

// get reads from the cache, and on a miss once from the API server.
func (r Resolver) get(ctx context.Context, key client.ObjectKey, object client.Object) error {
	err := r.Cached.Get(ctx, key, object)
	if apierrors.IsNotFound(err) && r.Live != nil {
		err = r.Live.Get(ctx, key, object)
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("reading '%s': %w", key, err)
	}
	return err
}
