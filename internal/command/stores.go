package command

import (
	"context"
	"fmt"

	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// InformerStores sets each value of into to the store of the informer of its key's kind. Metrics count objects in stores without copying them. It waits until
// the informers have synced.
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
