package rehearsal

import (
	"context"
	"fmt"

	"github.com/kilnvm/kiln/internal/objects"
	"k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// objectID identifies an object of any version of its kind.
type objectID struct {
	schema.GroupKind
	client.ObjectKey
}

// overlay reads a cluster or a dump as it would be after the changes: with the changed objects in the place of the objects of their names, and without the
// removed ones.
type overlay struct {
	objects.Layers
	scheme  *runtime.Scheme
	removed map[objectID]bool
}

// Get reads one object. A removed one does not exist.
func (o overlay) Get(ctx context.Context, key client.ObjectKey, into client.Object, options ...client.GetOption) error {
	kind, err := apiutil.GVKForObject(into, o.scheme)
	if err != nil {
		return err
	}
	if o.removed[objectID{kind.GroupKind(), key}] {
		return errors.NewNotFound(schema.GroupResource{Group: kind.Group, Resource: kind.Kind}, key.Name)
	}
	return o.Layers.Get(ctx, key, into, options...)
}

// List reads the objects of a kind without the removed ones.
func (o overlay) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	if err := o.Layers.List(ctx, list, options...); err != nil || len(o.removed) == 0 {
		return err
	}
	kind, err := apiutil.GVKForObject(list, o.scheme)
	if err != nil {
		return err
	}
	group := schema.GroupKind{Group: kind.Group, Kind: itemKind(kind.Kind)}
	all, err := meta.ExtractList(list)
	if err != nil {
		return err
	}
	kept := make([]runtime.Object, 0, len(all))
	for _, object := range all {
		named, ok := object.(client.Object)
		if !ok {
			return fmt.Errorf("the list of %s has a %T", group, object)
		}
		if !o.removed[objectID{group, client.ObjectKeyFromObject(named)}] {
			kept = append(kept, object)
		}
	}
	return meta.SetList(list, kept)
}
