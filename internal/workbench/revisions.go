package workbench

import (
	"context"
	"fmt"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/revision"
	"github.com/kilnvm/kiln/internal/workbench/manifest"
	"github.com/kilnvm/kiln/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Usages lists the revisions of a namespace, or of all namespaces if it is empty, and the VMs that use them. Revisions of a configuration are compared with
// the configuration that this bench reads, because a configuration has no API object. The warnings name objects that could not be read.
func (b *Bench) Usages(ctx context.Context, cluster client.Reader, namespace string) ([]revision.Usage, []string, error) {
	now, warnings, err := b.Configuration(ctx, manifest.Inputs{Reader: cluster, OfCluster: true})
	if err != nil {
		return nil, warnings, err
	}
	// Source is empty if nobody configured anything. Then there is no configuration to compare the revisions with.
	var unserved []map[string]any
	if now.Source != "" {
		defaults, err := config.Snapshot(now.Defaults)
		if err != nil {
			return nil, warnings, err
		}
		unserved = append(unserved, defaults)
	}
	usages, err := revision.Usages(ctx, cluster, namespace, unserved...)
	return usages, append(warnings, OutdatedWarnings(usages)...), err
}

// OutdatedWarnings returns a warning about objects that could not be read, one for each kind and reason. It does not warn about objects that only
// administrators may read, nor about a configuration without an object in the cluster: the state 'unknown' and its reason show these.
func OutdatedWarnings(usages []revision.Usage) (warnings []string) {
	seen := map[string]bool{}
	for _, u := range usages {
		if u.Reason == "" || u.Forbidden || u.Kind == v1alpha1.KindClusterConfiguration || seen[u.Kind+u.Reason] {
			continue
		}
		seen[u.Kind+u.Reason] = true
		warnings = append(warnings, fmt.Sprintf("revisions of %s '%s' may be outdated: %s", u.Kind, u.Name, u.Reason))
	}
	return warnings
}
