package objects

import (
	"context"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Served reads a cluster in which some kinds are not installed: a list of such a kind has no objects.
type Served struct{ client.Reader }

// List returns the objects of a kind, and none of a kind that the cluster does not serve.
func (s Served) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	err := s.Reader.List(ctx, list, options...)
	if meta.IsNoMatchError(err) {
		return nil
	}
	return err
}
