package resolve

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/kilnvm/kiln/internal/revision"
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/instancetype"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	legal "k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation"
	v1 "kubevirt.io/api/core/v1"
	"kubevirt.io/api/instancetype/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// content is one size, preference, preset or configuration, from a revision or from a live object.
type content struct {
	size       *instancetype.Instancetype
	preference *instancetype.Preference
	preset     *v1.VirtualMachineInstancePreset
	defaults   *config.Defaults
	revision   string
	// draft is set when the revision does not exist yet.
	draft *revision.Draft
}

func (c *content) source() instancetype.Source {
	switch {
	case c.size != nil:
		return c.size.Source
	case c.preference != nil:
		return c.preference.Source
	case c.preset != nil:
		return instancetype.Source{Kind: presets.Namespaced, Name: c.preset.Name, Revision: c.revision}
	}
	return instancetype.Source{Kind: configurations.Namespaced, Revision: c.revision}
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
	if f.Canonical(object.GetKind()) == "" {
		return nil, nil
	}
	var err error
	found := &content{revision: name}
	switch f.field {
	case sizes.field:
		found.size, err = instancetype.ReadInstancetype(name, data)
	case preferences.field:
		found.preference, err = instancetype.ReadPreference(name, data)
	case presets.field:
		err = json.Unmarshal(data, &found.preset)
	case configurations.field:
		found.defaults, err = config.ReadDefaults(data)
	}
	if err != nil {
		return nil, fmt.Errorf("reading revision '%s': %w", name, err)
	}
	return found, nil
}

// live is the object that a matcher names, as its snapshot. Nil when it does not exist.
func (r Resolver) live(ctx context.Context, ref *reference) (*content, error) {
	object := &unstructured.Unstructured{}
	kind := ref.family.Canonical(ref.kind)
	object.SetGroupVersionKind(v1beta1.SchemeGroupVersion.WithKind(kind))
	key := client.ObjectKey{Name: ref.name}
	if kind == ref.Namespaced {
		key.Namespace = ref.namespace
	}
	if err := r.get(ctx, key, object); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	return r.snapshot(ctx, ref.family, ref.namespace, object)
}

// snapshot is what a live object holds, as the revision that is or would be taken of it for a namespace.
func (r Resolver) snapshot(ctx context.Context, f family, namespace string, object *unstructured.Unstructured) (*content, error) {
	draft, err := r.draft(namespace, object)
	if err != nil {
		return nil, err
	}
	known, err := Resolver{Cached: r.Cached, Memo: r.Memo}.revision(ctx, f, client.ObjectKey{Namespace: namespace, Name: draft.Name})
	if err != nil || known != nil {
		return known, err
	}
	found, err := read(f, draft.Name, draft.Data)
	if found != nil {
		found.draft = &draft
	}
	return found, err
}

// get reads from the cache, and on a miss once from the API server.
func (r Resolver) get(ctx context.Context, key client.ObjectKey, object client.Object) error {
	err := r.Cached.Get(ctx, key, object)
	if apierrors.IsNotFound(err) && r.Live != nil && possible(key) {
		err = r.Live.Get(ctx, key, object)
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("reading '%s': %w", key, err)
	}
	return err
}

// possible reports whether an object can have this name and namespace. A client refuses to ask for others, and that error would look like ours,
// while the name is the user's.
func possible(key client.ObjectKey) bool {
	for _, segment := range []string{key.Name, key.Namespace} {
		if len(segment) > validation.DNS1123SubdomainMaxLength || len(legal.IsPathSegmentName(segment)) > 0 {
			return false
		}
	}
	return key.Name != ""
}
