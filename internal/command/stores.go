package command

import (
	"context"
	"fmt"

	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// InformerStores writes the store of the informer of each object's kind, by which metrics count objects without copying them. It waits until they have synced.
func InformerStores(ctx context.Context, from cache.Cache, into map[client.Object]*toolscache.Store) error {
	for object, store := range into {
		informer, err := from.GetInformer(ctx, object)
		if err != nil {
			return err
		}
		shared, is := informer.(toolscache.SharedInformer)
		if !is {
			return fmt.Errorf("the informer of %T has no store", object)
		}
		*store = shared.GetStore()
	}
	return nil
}
