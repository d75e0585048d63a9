package condition

import (
	"context"

	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Write patches the status of an object to that of a changed copy, or makes no request if both are equal. A merge patch replaces the whole list of
// conditions, so it carries the resourceVersion that was read: it fails, and the reconcile is tried again, if another writer changed the object since.
// An object that was deleted meanwhile is no error.
func Write(ctx context.Context, to client.StatusClient, read, changed client.Object) error {
	if equality.Semantic.DeepEqual(read, changed) {
		return nil
	}
	return client.IgnoreNotFound(to.Status().Patch(ctx, changed, client.MergeFromWithOptions(read, client.MergeFromWithOptimisticLock{})))
}
