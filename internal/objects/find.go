package objects

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Find reads an object into the given one and returns it, or nil if the object does not exist.
func Find[O interface {
	*E
	client.Object
}, E any](ctx context.Context, reader client.Reader, key client.ObjectKey, into O) (O, error) {
	if err := reader.Get(ctx, key, into); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	return into, nil
}
