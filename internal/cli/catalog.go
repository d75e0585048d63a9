package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/kilnvm/kiln/internal/oci"
	"github.com/kilnvm/kiln/internal/workbench/catalogs"
	"github.com/kilnvm/kiln/internal/workbench/manifest"
	"github.com/spf13/cobra"
)

// catalogOptions has the flags that several commands about catalogs have.
type catalogOptions struct {
	inputs
	catalogSource
}

func newCatalogOptions(s *session) catalogOptions {
	return catalogOptions{inputs: newInputs(s), catalogSource: catalogSource{session: s}}
}

// catalogSource reads catalogs of folders, registries and the cluster.
type catalogSource struct {
	session *session
	// registry has the values of --plain-http and --registry-ca.
	registry oci.Options
}

// catalogCommand returns 'catalog', the commands for maintainers of a catalog. Users of a catalog have commands of their own, such as
// 'instancetypes'.
func catalogCommand(s *session) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "catalog",
		Short: "Check, compare, publish, sign and install catalogs of instancetypes and preferences",
		Example: "  kubectl kiln catalog lint catalog/\n" +
			"  kubectl kiln catalog diff cluster catalog/",
		Long: "Check, compare, publish, sign and install catalogs of instancetypes and preferences. A catalog is a folder with their\n" +
			"manifests, one file, '-' for the standard input, 'cluster' for the objects of the current cluster, or an OCI reference such as\n" +
			"'oci://registry.example.org/catalogs/general:1.0.0'. Registries are reached with docker's credentials.",
	}
	cmd.AddCommand(catalogCopyCommand(s), catalogDiffCommand(s), catalogInspectCommand(s), catalogInstallCommand(s), catalogLintCommand(s),
		catalogPullCommand(s), catalogPushCommand(s), catalogSignCommand(s), catalogSiteCommand(s), catalogUninstallCommand(s), catalogUsageCommand(s),
		catalogVerifyCommand(s))
	refuseUnknown(cmd)
	return cmd
}

// refuseUnknown makes a command of commands refuse the name of one that it does not have. Cobra checks such names for the root alone: below it, it
// prints the help with exit status 0, and a mistyped step of a pipeline passes.
func refuseUnknown(cmd *cobra.Command) {
	cmd.Args = unknownCommand
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
}

// clusterSource is the source that means the current cluster. A folder of this name is './cluster'.
const clusterSource = "cluster"

// catalog reads the catalog that a source names. Objects of files without a namespace get that of the kubeconfig, if there is one. A catalog without
// any object is an error.
// What cannot be read or is refused is in Refused of the result and no error: each command decides whether a part of a catalog has an answer.
func (o *catalogSource) catalog(ctx context.Context, source string) (catalogs.Catalog, error) {
	// An error matters for the cluster alone: a pipeline that judges files has no kubeconfig.
	namespace, _, err := o.session.cluster.ToRawKubeConfigLoader().Namespace()
	if source == clusterSource {
		if err != nil {
			return catalogs.Catalog{}, err
		}
		cluster, err := o.session.client()
		if err != nil {
			return catalogs.Catalog{}, err
		}
		return catalogs.ClusterCatalog(ctx, cluster, namespace)
	}
	files, err := o.catalogFiles(ctx, source)
	if err != nil {
		return catalogs.Catalog{}, err
	}
	// From here on the source is only named, in findings and reports.
	if source == "-" {
		source = manifest.StandardInput
	}
	read, err := catalogs.NewCatalog(source, namespace, files)
	if err == nil && len(read.Objects) == 0 && len(read.Refused) == 0 {
		err = fmt.Errorf("no instancetype and no preference in %s", source)
	}
	return read, err
}

// catalogFiles reads the files of a catalog that is published, or of this machine. Both have the same path from here on, so that a catalog gets the
// same findings before and after it is published.
func (o *catalogSource) catalogFiles(ctx context.Context, source string) ([]manifest.File, error) {
	if !strings.HasPrefix(source, oci.Scheme) {
		return manifest.ReadFolder(source, o.session.In)
	}
	client, err := o.registryClient()
	if err != nil {
		return nil, err
	}
	pulled, err := client.Pull(ctx, source)
	return catalogs.CatalogFilesOf(pulled.Artifact), err
}
