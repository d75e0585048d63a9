// Package slimmed gives tests a client that reads as the cache of Kiln's processes does.
package slimmed

import (
	"context"
	"errors"

	"github.com/kilnvm/kiln/internal/command"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// Client reads what a cache keeps of an object. It refuses Update, which would delete on the server what the cache has removed.
func Client(stored client.WithWatch) client.WithWatch {
	return interceptor.NewClient(stored, interceptor.Funcs{
		Get: func(ctx context.Context, to client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
			if err := to.Get(ctx, key, object, options...); err != nil {
				return err
			}
			_, err := command.Slim(object)
			return err
		},
		Update: func(context.Context, client.WithWatch, client.Object, ...client.UpdateOption) error {
			return errors.New("an object of the cache is written back whole")
		},
		SubResourceUpdate: func(context.Context, client.Client, string, client.Object, ...client.SubResourceUpdateOption) error {
			return errors.New("the status of an object of the cache is written back whole")
		},
	})
}
