package catalogcmd

import (
	"encoding/json"
	"slices"

	"github.com/kilnvm/kiln/internal/cli/cmdutil"
	"github.com/kilnvm/kiln/internal/workbench/crdschema"
	"github.com/spf13/cobra"
)

// SchemaCommand returns 'schema'. The exit status is 2 if the catalog cannot be read.
func SchemaCommand(s *cmdutil.Session) *cobra.Command {
	o := newCatalogOptions(s)
	cmd := &cobra.Command{
		Use:   "schema [DIR|FILE|-|cluster|oci://HOST/REPOSITORY:VERSION]",
		Short: "Print a JSON Schema of all kinds for editors",
		Long: "Print a JSON Schema (draft 7) of the kinds of KubeVirt and Kiln for editors with yaml-language-server: they complete fields, show\n" +
			"their documentation, and mark unknown ones. With a catalog, the names of its instancetypes and preferences are the only ones\n" +
			"that a VM may have. Objects of other kinds in the same files are accepted.",
		Example: "  kubectl kiln schema catalog/ > kiln.schema.json\n" +
			"  kubectl kiln schema cluster -n shop > kiln.schema.json",
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var instancetypes, preferences []string
			if len(args) > 0 {
				catalog, err := o.ReadCatalog(cmd.Context(), args[0])
				if err != nil {
					return err
				}
				for _, object := range catalog.Objects {
					if object.Instancetype != nil {
						instancetypes = append(instancetypes, object.Name)
					} else {
						preferences = append(preferences, object.Name)
					}
				}
				for _, names := range []*[]string{&instancetypes, &preferences} {
					slices.Sort(*names)
					*names = slices.Compact(*names)
				}
			}
			schema, err := crdschema.EditorSchema(instancetypes, preferences)
			if err != nil {
				return err
			}
			encoder := json.NewEncoder(o.Out)
			encoder.SetEscapeHTML(false)
			return encoder.Encode(schema)
		},
	}
	o.AddRegistry(cmd)
	return cmd
}
