package catalogcmd

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/kilnvm/kiln/internal/cli/cmdutil"
	"github.com/kilnvm/kiln/internal/cli/cmdutil/catalogsource"
	"github.com/kilnvm/kiln/internal/cli/cmdutil/table"
	"github.com/kilnvm/kiln/internal/workbench/catalogs"
	"github.com/kilnvm/kiln/pkg/catalog"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/spf13/cobra"
)

// cutTag splits a reference before its tag or digest. It returns false if there is no tag. A colon before the last slash belongs to the port of the host.
func cutTag(reference string) (repository, tag string, found bool) {
	if repository, _, digested := strings.Cut(reference, "@"); digested {
		return repository, "", false
	}
	at := strings.LastIndex(reference, ":")
	if at < 0 || strings.Contains(reference[at:], "/") {
		return reference, "", false
	}
	return reference[:at], reference[at+1:], true
}

// catalogPullCommand returns 'catalog pull'. It does not judge the catalog.
func catalogPullCommand(s *cmdutil.Session) *cobra.Command {
	o := newCatalogOptions(s)
	var folder string
	cmd := &cobra.Command{
		Use: "pull oci://HOST/REPOSITORY:VERSION --output-dir DIR", Short: "Write the manifests of a published catalog into a folder",
		Example: "  kubectl kiln catalog pull oci://registry.example.org/catalogs/general:1.0.0 --output-dir general/",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := o.RegistryClient()
			if err != nil {
				return err
			}
			pulled, err := client.Pull(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if err := catalogsource.WriteFolder(folder, pulled.Files); err != nil {
				return err
			}
			fmt.Fprintf(o.Out, "%s@%s: %d files in %s\n", args[0], pulled.Digest, len(pulled.Files), folder)
			return nil
		},
	}
	cmd.Flags().StringVar(&folder, "output-dir", "", "folder to write, which must not exist or be empty")
	_ = cmd.MarkFlagRequired("output-dir") // fails for a flag that is not there
	o.AddRegistry(cmd)
	return cmd
}

// catalogCopyCommand returns 'catalog copy'. The copy has the digest of the original, so its signatures are valid.
// The exit status is 2 if the tag already names another artifact in the target.
func catalogCopyCommand(s *cmdutil.Session) *cobra.Command {
	o := newCatalogOptions(s)
	cmd := &cobra.Command{
		Use: "copy oci://FROM:VERSION oci://TO:VERSION", Short: "Copy a published catalog and its signatures to another repository",
		Long: "Copy a published catalog and its signatures to another repository, such as a mirror without access to the internet. The copy has\n" +
			"the digest of the original, so its signatures are valid. A tag of the target that names another artifact is not moved.",
		Example: "  kubectl kiln catalog copy oci://registry.example.org/catalogs/general:1.0.0 oci://mirror.example.org/catalogs/general:1.0.0",
		Args:    cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := o.RegistryClient()
			if err != nil {
				return err
			}
			digest, err := client.Copy(cmd.Context(), args[0], args[1])
			if err != nil {
				return err
			}
			fmt.Fprintf(o.Out, "%s@%s\n", args[1], digest)
			return nil
		},
	}
	o.AddRegistry(cmd)
	return cmd
}

// catalogInspectCommand returns 'catalog inspect'. It reads only the index of the catalog, which is a separate layer of the artifact.
func catalogInspectCommand(s *cmdutil.Session) *cobra.Command {
	o := newCatalogOptions(s)
	cmd := &cobra.Command{
		Use: "inspect oci://HOST/REPOSITORY:VERSION", Short: "List the objects of a published catalog, without reading its files",
		Args: cobra.ExactArgs(1),
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return o.inspectCatalog(cmd.Context(), args[0]) }
	o.AddRegistry(cmd)
	o.AddOutput(cmd, "text", "text", "wide", "name", "json", "yaml")
	o.Answers(cmd, "CatalogInspection", inspection{})
	return cmd
}

// inspection is the JSON document of 'catalog inspect'. Annotations are the annotations of the manifest.
type inspection struct {
	Reference   string            `json:"reference"`
	Digest      string            `json:"digest"`
	Annotations map[string]string `json:"annotations"`
	Index       catalog.Index     `json:"index"`
}

// inspectCatalog prints the digest, four annotations, and a table of instancetypes and of preferences. It replaces control characters, because users who may
// push to the repository are not trusted. -o json prints all annotations.
func (o *catalogOptions) inspectCatalog(ctx context.Context, reference string) error {
	client, err := o.RegistryClient()
	if err != nil {
		return err
	}
	pulled, err := client.Inspect(ctx, reference)
	if err != nil {
		return err
	}
	index, err := catalogs.ReadIndex(pulled.Index)
	if err != nil {
		return err
	}
	found := inspection{reference, pulled.Digest.String(), pulled.Annotations, index}
	if o.Documents {
		return o.Print(found)
	}
	if o.Output != "name" {
		printOrigin(o.Out, found)
	}
	var names []string
	for _, part := range []struct {
		head    string
		entries []catalog.Entry
	}{{"INSTANCETYPE", index.Instancetypes}, {"PREFERENCE", index.Preferences}} {
		var rows [][]string
		for _, e := range part.entries {
			names = append(names, cmdutil.ResourceName(e.Kind, e.Name))
			rows = append(rows, []string{strings.TrimPrefix(e.Namespace+"/"+e.Name, "/"), numberCell(e.CPUs), e.Memory, numberCell(uint32(e.GPUs)), e.Lifecycle,
				e.ReplacedBy, strings.Join(e.Architectures, ","), strings.Join(e.Features, ", ")})
		}
		if o.Output == "name" || len(rows) == 0 {
			continue
		}
		fmt.Fprintln(o.Out)
		columns := append(table.Columns(part.head, "VCPUS", "MEMORY", "GPUS", "LIFECYCLE"), table.WideColumns("USE-INSTEAD", "ARCHITECTURES", "FEATURES")...)
		if err := table.Print(&o.Printer, columns, rows); err != nil {
			return err
		}
	}
	if o.Output == "name" {
		return o.PrintNames(names)
	}
	return nil
}

// printOrigin prints the digest of a catalog, and four annotations.
func printOrigin(out io.Writer, i inspection) {
	fmt.Fprintf(out, "%s@%s\n", i.Reference, i.Digest)
	for _, key := range []string{ocispec.AnnotationVersion, ocispec.AnnotationCreated, ocispec.AnnotationRevision, ocispec.AnnotationSource} {
		if value := i.Annotations[key]; value != "" {
			fmt.Fprintln(out, cmdutil.Printable(strings.TrimPrefix(key, "org.opencontainers.image.")+": "+value))
		}
	}
}

// numberCell returns a number as text; empty for 0.
func numberCell(n uint32) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprint(n)
}
