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

// DeleteUnchanged deletes an object unless it has changed since it was read: then the error is a conflict. An object that is gone is no error.
func DeleteUnchanged(ctx context.Context, c client.Client, read client.Object) error {
	uid, version := read.GetUID(), read.GetResourceVersion()
	return client.IgnoreNotFound(c.Delete(ctx, read, client.Preconditions{UID: &uid, ResourceVersion: &version}))
}

// DeleteSame deletes an object if it is still the one that was read, changed or not: because of the UID, a caller with an outdated cache does not delete a
// successor of the same name. An object that is gone is no error.
func DeleteSame(ctx context.Context, c client.Client, read client.Object, options ...client.DeleteOption) error {
	uid := read.GetUID()
	return client.IgnoreNotFound(c.Delete(ctx, read, append(options, client.Preconditions{UID: &uid})...))
}
