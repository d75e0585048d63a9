package cli

import (
	"context"
	"fmt"

	"github.com/kilnvm/kiln/internal/workbench"
	"github.com/spf13/cobra"
)

func catalogCommand(o *options) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "catalog",
		Short:   "Check and compare catalogs of instancetypes and preferences",
		Example: "  kubectl kiln catalog lint catalog/",
		Long: "Check and compare catalogs of instancetypes and preferences. A catalog is a folder with their manifests, one file, '-' for\n" +
			"the standard input, or 'cluster' for the objects of the current cluster.",
	}
	cmd.AddCommand(catalogLintCommand(o))
	return cmd
}

// clusterSource is the source that means the current cluster. A folder of this name is './cluster'.
const clusterSource = "cluster"

// catalog reads the catalog that a source names.
func (o *options) catalog(ctx context.Context, source string) (workbench.Catalog, error) {
	namespace, _, err := o.cluster.ToRawKubeConfigLoader().Namespace()
	if source == clusterSource {
		if err != nil {
			return workbench.Catalog{}, err
		}
		cluster, err := o.client()
		if err != nil {
			return workbench.Catalog{}, err
		}
		return workbench.ClusterCatalog(ctx, cluster, namespace)
	}
	files, err := workbench.ReadCatalogFiles(source, o.In)
	if err != nil {
		return workbench.Catalog{}, err
	}
	if source == "-" {
		source = workbench.StandardInput
	}
	read, err := workbench.NewCatalog(source, namespace, files)
	if err == nil && len(read.Objects) == 0 && len(read.Refused) == 0 {
		err = fmt.Errorf("no instancetype and no preference in %s", source)
	}
	return read, err
}
