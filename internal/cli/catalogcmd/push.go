package catalogcmd

import (
	"context"
	"fmt"
	"time"

	"github.com/kilnvm/kiln/internal/cli/cmdutil"
	"github.com/kilnvm/kiln/internal/oci"
	"github.com/kilnvm/kiln/internal/workbench/catalogs"
	"github.com/kilnvm/kiln/pkg/catalog"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/spf13/cobra"
)

// mostTags is the maximal number of tags that are read, because a registry could list tags without end.
const mostTags = 10_000

// catalogPushCommand returns 'catalog push'. It never overwrites a version, because signatures and mirrors refer to the digest.
// The exit status is 1 if an object is refused or an instancetype differs from the preceding version, and 2 if the tag already names another artifact.
// Pushing the same artifact again is not an error, so that a user can repeat an interrupted push.
func catalogPushCommand(s *cmdutil.Session) *cobra.Command {
	p := pushRun{catalogOptions: newCatalogOptions(s)}
	cmd := &cobra.Command{
		Use: "push DIR|FILE|-|cluster oci://HOST/REPOSITORY:VERSION", Short: "Publish a catalog as an OCI artifact",
		Long: "Publish a catalog as an OCI artifact. Flux's OCIRepository and 'oras pull' read it too. The same catalog of the same commit has\n" +
			"the same digest. A version that is published is never changed.\n\n" +
			"An instancetype whose spec differs from the preceding version is refused, because VMs choose it by name. Publish it under\n" +
			"a new name, and mark the old one with 'kilnvm.io/replaced-by'. --allow-change publishes it nevertheless.",
		Example: "  kubectl kiln catalog push catalog/ oci://registry.example.org/catalogs/general:1.0.0",
		Args:    cobra.ExactArgs(2),
		RunE:    func(cmd *cobra.Command, args []string) error { return p.pushCatalog(cmd.Context(), args[0], args[1]) },
	}
	cmd.Flags().BoolVar(&p.allowChange, "allow-change", false, "publish instancetypes that differ from the preceding version under their old names")
	cmd.Flags().StringVar(&p.source, "source", "", "URL of the catalog's source; default: the remote 'origin' of the folder's Git repository")
	p.AddRegistry(cmd)
	return cmd
}

// pushRun is a run of 'catalog push'.
type pushRun struct {
	catalogOptions
	// allowChange publishes instancetypes whose spec differs under their old names.
	allowChange bool
	// source is the value of --source; empty for the remote of the Git repository.
	source string
}

// pushCatalog publishes a catalog, and prints the reference with the digest. The tag must be a semantic version, because otherwise it has no predecessor.
// Everything is checked before the first write to the registry.
func (p *pushRun) pushCatalog(ctx context.Context, source, reference string) error {
	_, tag, _ := cutTag(reference)
	v, err := catalogs.ParseVersion(tag)
	if err != nil {
		return err
	}
	read, err := p.readPublishable(ctx, source)
	if err != nil {
		return err
	}
	commit, err := catalogs.CommitOf(ctx, source)
	if err != nil {
		return err
	}
	if commit.Changed {
		p.Warn(fmt.Sprintf("'%s' has changes that are not committed: the artifact names no commit", source))
	}
	artifact, err := read.Artifact(p.imageAnnotations(v, commit), commit.Time)
	if err != nil {
		return err
	}
	client, err := p.RegistryClient()
	if err != nil {
		return err
	}
	if err := p.compareWithPredecessor(ctx, client, predecessorOf{reference, v, read, commit.Time}); err != nil {
		return err
	}
	digest, err := client.Push(ctx, reference, artifact)
	if err != nil {
		return err
	}
	instancetypes, preferences := read.Count()
	fmt.Fprintf(p.Out, "%s@%s: %s and %s\n", reference, digest, cmdutil.Counted(instancetypes, "instancetype"), cmdutil.Counted(preferences, "preference"))
	return nil
}

// readPublishable reads a catalog. If an API server would refuse one of its objects, it prints each of these and returns ErrRejected, because a user who
// applies a published catalog cannot correct it. Other rules of 'catalog lint' are not applied.
func (o *catalogOptions) readPublishable(ctx context.Context, source string) (catalogs.Catalog, error) {
	read, err := o.ReadCatalog(ctx, source)
	if err != nil {
		return read, err
	}
	refused := 0
	for _, f := range read.Refused {
		if f.Severity == catalog.Error {
			refused++
			fmt.Fprintln(o.ErrOut, cmdutil.Printable(fmt.Sprintf("%s:%d: %s: %s [%s]", f.File, f.Line, f.Object, f.Message, f.Rule)))
		}
	}
	if refused > 0 {
		return read, cmdutil.ErrRejected
	}
	return read, nil
}

// imageAnnotations returns annotations of the OCI image specification. The time is the time of the commit, so that the same commit has the same
// digest. Without Git there is no time.
func (p *pushRun) imageAnnotations(v catalogs.Version, c catalogs.Commit) map[string]string {
	all := map[string]string{ocispec.AnnotationVersion: v.Tag}
	if c.Revision != "" {
		all[ocispec.AnnotationRevision] = c.Revision
	}
	if !c.Time.IsZero() {
		all[ocispec.AnnotationCreated] = c.Time.UTC().Format(time.RFC3339)
	}
	if p.source != "" {
		all[ocispec.AnnotationSource] = p.source
	} else if c.Remote != "" {
		all[ocispec.AnnotationSource] = c.Remote
	}
	return all
}

// predecessorOf is a version that is compared with its predecessor.
type predecessorOf struct {
	reference string
	version   catalogs.Version
	read      catalogs.Catalog
	now       time.Time
}

// compareWithPredecessor refuses instancetypes that the preceding version has with another spec: it prints their names and returns ErrRejected. It reads only
// the index of the preceding version, which has the digest of each spec.
// The preceding version is the highest lower version, not the newest push: a patch of an old minor version is compared with that minor version. The first
// version is not compared.
func (p *pushRun) compareWithPredecessor(ctx context.Context, client *oci.Client, of predecessorOf) error {
	repository, _, _ := cutTag(of.reference)
	tags, err := client.Tags(ctx, of.reference, mostTags)
	if err != nil {
		return err
	}
	before, found := of.version.Predecessor(tags)
	if !found {
		return nil
	}
	pulled, err := client.Inspect(ctx, repository+":"+before.Tag)
	if err != nil {
		return err
	}
	index, err := catalogs.ReadIndex(pulled.Index)
	if err != nil {
		return err
	}
	changed := catalogs.ChangedInstancetypes(index, catalog.IndexOf(of.read.Objects, of.now))
	if len(changed) == 0 || p.allowChange {
		return nil
	}
	for _, name := range changed {
		text := fmt.Sprintf("instancetype '%s' differs from version %s: publish it under a new name, or use --allow-change", name, before.Tag)
		fmt.Fprintln(p.ErrOut, cmdutil.Printable(text))
	}
	return cmdutil.ErrRejected
}
