package condition

import (
	"context"

	"github.com/kilnvm/kiln/internal/objects"
	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Write patches the status of an object from read to changed; it sends no request if both are equal. A merge patch replaces the whole list of conditions, so
// it contains the resourceVersion of read, and fails with a conflict if the object was changed since. An object that was deleted since is no error.
func Write(ctx context.Context, c client.Client, read, changed client.Object) error {
	if equality.Semantic.DeepEqual(read, changed) {
		return nil
	}
	return client.IgnoreNotFound(objects.PatchStatus(ctx, c, changed, read))
}
