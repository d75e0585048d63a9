package objects

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Patch writes the difference between before and changed, except the status. It fails with a conflict if the stored object is newer than before.
func Patch(ctx context.Context, c client.Client, changed, before client.Object) error {
	return c.Patch(ctx, changed, optimisticPatch(before))
}

// PatchStatus writes the difference between the statuses of before and changed. It fails with a conflict if the stored object is newer than before.
func PatchStatus(ctx context.Context, c client.Client, changed, before client.Object) error {
	return c.Status().Patch(ctx, changed, optimisticPatch(before))
}

// optimisticPatch returns a merge patch that contains the resource version of before.
func optimisticPatch(before client.Object) client.Patch {
	return client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
}

// GetOrNil reads an object into the given one, and returns nil if the object does not exist.
func GetOrNil[O interface {
	*E
	client.Object
}, E any](ctx context.Context, reader client.Reader, key client.ObjectKey, into O) (O, error) {
	if err := reader.Get(ctx, key, into); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	return into, nil
}
