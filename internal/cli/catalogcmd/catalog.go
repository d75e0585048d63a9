// Package catalogcmd has the commands about catalogs: 'catalog' with its subcommands, 'instancetypes' and 'preferences'.
package catalogcmd

import (
	"github.com/kilnvm/kiln/internal/cli/cmdutil"
	"github.com/kilnvm/kiln/internal/cli/cmdutil/catalogsource"
	"github.com/spf13/cobra"
)

// catalogOptions has the flags that several commands about catalogs share.
type catalogOptions struct {
	cmdutil.Inputs
	catalogsource.Reader
}

func newCatalogOptions(s *cmdutil.Session) catalogOptions {
	return catalogOptions{Inputs: cmdutil.NewInputs(s), Reader: catalogsource.New(s)}
}

// Command returns 'catalog', the commands for maintainers of a catalog. The commands for users of a catalog are 'instancetypes' and 'preferences'.
func Command(s *cmdutil.Session) *cobra.Command {
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
		catalogPullCommand(s), catalogPushCommand(s), catalogSignCommand(s), catalogSiteCommand(s), catalogStatusCommand(s), catalogUninstallCommand(s),
		catalogUsageCommand(s), catalogVerifyCommand(s))
	cmdutil.RefuseUnknown(cmd)
	return cmd
}
