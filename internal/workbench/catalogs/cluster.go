package catalogs

import (
	"context"
	"fmt"

	"github.com/kilnvm/kiln/internal/workbench/manifest"
	"github.com/kilnvm/kiln/pkg/instancetype"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"kubevirt.io/api/instancetype/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// FromCluster reads the cluster-wide instancetypes and preferences, and the instancetypes and preferences of one namespace.
// It fails if the user may not list one of the kinds.
func FromCluster(ctx context.Context, cluster client.Reader, namespace string) (Catalog, error) {
	c := Catalog{Source: "the cluster"}
	for _, kind := range instancetype.CatalogKinds() {
		var list unstructured.UnstructuredList
		list.SetGroupVersionKind(v1beta1.SchemeGroupVersion.WithKind(kind + "List"))
		var options []client.ListOption
		if !manifest.ClusterKinds[kind] {
			options = append(options, client.InNamespace(namespace))
		}
		if err := cluster.List(ctx, &list, options...); err != nil {
			return c, fmt.Errorf("reading the kind %s: %w", kind, err)
		}
		for i := range list.Items {
			c.addObject(manifest.Stored(&list.Items[i]))
		}
	}
	return c, nil
}
