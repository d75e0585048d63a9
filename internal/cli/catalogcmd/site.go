package catalogcmd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/kilnvm/kiln/internal/cli/cmdutil"
	"github.com/kilnvm/kiln/internal/cli/cmdutil/catalogsource"
	"github.com/kilnvm/kiln/internal/oci"
	"github.com/kilnvm/kiln/internal/site"
	"github.com/kilnvm/kiln/internal/workbench/catalogs"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/spf13/cobra"
)

// catalogSiteCommand returns 'catalog site'. It writes index.html into a new folder and prints its size. Only the page of a published catalog contains a
// reference and a version.
func catalogSiteCommand(s *cmdutil.Session) *cobra.Command {
	o := newCatalogOptions(s)
	var folder, title, try, key string
	cmd := &cobra.Command{
		Use: "site DIR|FILE|-|cluster|oci://HOST/REPOSITORY:VERSION --output-dir DIR", Short: "Write a catalog as a static page to choose from",
		Long: "Write a catalog as one static HTML page: every instancetype and preference, filters, comparison, which of them fit, manifests and\n" +
			"commands to copy. The page needs no server and no network.\n" +
			"With --try there is a second page, try.html, which validates, explains, renders and compares manifests with the catalog in the\n" +
			"browser of its reader. It needs a server of static files, because browsers do not load a program from a disk.\n" +
			"With --runtime the page marks the objects with which this runtime starts no guest, with the reason.\n" +
			"With --key the footer of the page of a published catalog names the key that signed the catalog, by the SHA-256 of the key. Without a\n" +
			"valid signature of the key there is no page, and the exit status is 1.",
		Example: "  kubectl kiln catalog site catalog/ --output-dir public/\n" +
			"  kubectl kiln catalog site catalog/ --try bin/browser --output-dir public/\n" +
			"  kubectl kiln catalog site oci://registry.example.org/catalogs/general:1.1.0 --key cosign.pub --output-dir public/",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			source, signer, err := o.verifiedSource(cmd.Context(), args[0], key)
			if err != nil {
				return err
			}
			read, err := o.ReadCatalog(cmd.Context(), source)
			if err != nil {
				return err
			}
			// Lifecycles depend on the time because of kilnvm.io/obsolete-after.
			refused, err := catalogs.RefusedByRuntime(cmd.Context(), &o.Bench, read)
			if err != nil {
				return err
			}
			page, err := read.PageContent(time.Now(), refused)
			if err != nil {
				return err
			}
			if page.Title = title; len(refused) > 0 {
				page.Runtime = o.Bench.Runtime
			}
			if strings.HasPrefix(args[0], oci.Scheme) {
				page.Reference = args[0]
				_, page.Version, _ = cutTag(args[0])
				o.describePublished(&page)
				page.SignedBy = signer.String()
				if !cmd.Flags().Changed("title") {
					page.Title = catalogName(args[0])
				}
			}
			page.Try = try != ""
			raw, err := site.Page(page)
			if err != nil {
				return err
			}
			files := []oci.File{{Name: "index.html", Content: raw}}
			if page.Try {
				more, err := tryFiles(page, try)
				if err != nil {
					return err
				}
				files = append(files, more...)
			}
			if err := catalogsource.WriteFolder(folder, files); err != nil {
				return err
			}
			fmt.Fprintf(o.Out, "%s: %s and %s, %d bytes\n", filepath.Join(folder, "index.html"),
				cmdutil.Counted(len(page.Instancetypes), "instancetype"), cmdutil.Counted(len(page.Preferences), "preference"), len(raw))
			return nil
		},
	}
	cmd.Flags().StringVar(&title, "title", "Catalog", "title of the page; the default of a published catalog is the last part of its repository")
	cmd.Flags().StringVar(&try, "try", "", "also write try.html, with the program in this folder, which 'make browser' has built in bin/browser")
	cmd.Flags().StringVar(&folder, "output-dir", "", "folder to write, which must not exist or be empty")
	_ = cmd.MarkFlagRequired("output-dir") // fails for a flag that is not there
	cmd.Flags().StringVar(&key, "key", "", "file of a public key, in PEM: write the page only of a published catalog with a signature of this key")
	o.addRuntime(cmd)
	o.AddRegistry(cmd)
	return cmd
}

// verifiedSource returns the source unchanged without a key. With the file of a key it verifies a published catalog, and returns its reference by the digest
// that the key has signed, because a tag may be moved between verification and reading, and the digest of the key.
func (o *catalogOptions) verifiedSource(ctx context.Context, source, key string) (verified string, signer digest.Digest, err error) {
	switch {
	case key == "":
		return source, "", nil
	case !strings.HasPrefix(source, oci.Scheme):
		return "", "", errors.New("--key verifies an OCI reference: files have no signature")
	}
	public, err := readKey(key)
	if err != nil {
		return "", "", err
	}
	client, err := o.RegistryClient()
	if err != nil {
		return "", "", err
	}
	signed, err := o.verifySignature(ctx, client, signedBy{source, key})
	if err != nil {
		return "", "", err
	}
	if signer, err = oci.KeyDigest(public); err != nil {
		return "", "", err
	}
	verified, err = oci.Pinned(source, signed)
	return verified, signer, err
}

// tryFiles returns the page on which readers try manifests, and its program, from the folder of --try.
func tryFiles(page site.Catalog, folder string) ([]oci.File, error) {
	content := map[string][]byte{}
	for _, name := range []string{site.Runner, site.Program} {
		var err error
		if content[name], err = os.ReadFile(filepath.Join(folder, name)); err != nil {
			return nil, fmt.Errorf("--try: %w: 'make browser' writes the file into bin/browser", err)
		}
	}
	raw, err := site.TryPage(page, content[site.Runner])
	return []oci.File{{Name: "try.html", Content: raw}, {Name: site.Program, Content: content[site.Program]}}, err
}

// catalogName returns the last part of the repository of a reference.
func catalogName(reference string) string {
	repository, _, _ := cutTag(reference)
	return repository[strings.LastIndex(repository, "/")+1:]
}

// describePublished adds what the manifest of a published catalog says.
func (o *catalogOptions) describePublished(page *site.Catalog) {
	pulled := o.Pulled()
	page.Digest = pulled.Digest.String()
	page.Created = pulled.Annotations[ocispec.AnnotationCreated]
	page.Repository, page.Revision = pulled.Annotations[ocispec.AnnotationSource], pulled.Annotations[ocispec.AnnotationRevision]
}
