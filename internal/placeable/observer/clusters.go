package observer

import (
	"context"
	"fmt"

	"github.com/kilnvm/kiln/internal/nodecpu"
	"github.com/kilnvm/kiln/internal/objects"
	"github.com/kilnvm/kiln/internal/placeable"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// clusters reads what the pods of namespaces find, each thing once. It must not be kept: it does not follow changes.
type clusters struct {
	cache       client.Reader
	nodes       *corev1.NodeList
	fleet       *nodecpu.Fleet
	byNamespace map[string]placeable.Cluster
}

func (o *Observer) newClusters() *clusters {
	return &clusters{cache: o.Cache, byNamespace: map[string]placeable.Cluster{}}
}

// read returns what a pod of a namespace finds. The objects belong to the cache, and nobody may change them.
func (c *clusters) read(ctx context.Context, namespace string) (cluster placeable.Cluster, err error) {
	if known, found := c.byNamespace[namespace]; found {
		return known, nil
	}
	if c.nodes == nil {
		var nodes corev1.NodeList
		if err := c.cache.List(ctx, &nodes, client.UnsafeDisableDeepCopy); err != nil {
			return cluster, fmt.Errorf("listing nodes: %w", err)
		}
		c.nodes, c.fleet = &nodes, nodecpu.NewFleet(nodes.Items)
	}
	var quotas corev1.ResourceQuotaList
	if err := c.cache.List(ctx, &quotas, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return cluster, fmt.Errorf("listing resourcequotas: %w", err)
	}
	var limits corev1.LimitRangeList
	if err := c.cache.List(ctx, &limits, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return cluster, fmt.Errorf("listing limitranges: %w", err)
	}
	cluster = placeable.Cluster{Nodes: c.nodes.Items, Fleet: c.fleet, Quotas: quotas.Items, LimitRanges: limits.Items}
	found, err := objects.GetOrNil(ctx, c.cache, types.NamespacedName{Name: namespace}, &corev1.Namespace{})
	if err != nil {
		return cluster, fmt.Errorf("reading namespaces: %w", err)
	}
	if found != nil {
		cluster.NamespaceLabels = found.Labels
	}
	c.byNamespace[namespace] = cluster
	return cluster, nil
}
