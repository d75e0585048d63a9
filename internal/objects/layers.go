package objects

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Layers reads from the first reader, and from the second one what the first one does not have: files over a cluster.
type Layers [2]client.Reader

// Get reads one object. It returns any error of the first reader except NotFound, because then it is not known what the first reader has.
func (l Layers) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	err := l[0].Get(ctx, key, object, options...)
	if apierrors.IsNotFound(err) {
		err = l[1].Get(ctx, key, object, options...)
	}
	return err
}

// List returns the objects of both readers. If both have an object of one name, the result has the object of the first reader. It fails if one of them fails:
// half of a list would look as if objects were deleted.
func (l Layers) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	second, ok := list.DeepCopyObject().(client.ObjectList)
	if !ok {
		return fmt.Errorf("the copy of %T is not a list", list)
	}
	if err := errors.Join(l[0].List(ctx, list, options...), l[1].List(ctx, second, options...)); err != nil {
		return err
	}
	all, err := meta.ExtractList(list)
	if err != nil {
		return err
	}
	seen := map[client.ObjectKey]bool{}
	for _, object := range all {
		if named, ok := object.(client.Object); ok {
			seen[client.ObjectKeyFromObject(named)] = true
		}
	}
	rest, err := meta.ExtractList(second)
	if err != nil {
		return err
	}
	for _, object := range rest {
		if named, ok := object.(client.Object); ok && !seen[client.ObjectKeyFromObject(named)] {
			all = append(all, object)
		}
	}
	return meta.SetList(list, all)
}
