package catalogcmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/kilnvm/kiln/internal/cli/cmdutil"
	"github.com/kilnvm/kiln/internal/cli/cmdutil/catalogsource"
	"github.com/kilnvm/kiln/internal/oci"
	"github.com/kilnvm/kiln/internal/workbench/cataloginstall"
	"github.com/kilnvm/kiln/internal/workbench/catalogs"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/validation"
)

// installRun is a run of 'catalog install' or 'catalog uninstall'.
type installRun struct {
	catalogOptions
	cataloginstall.Installation
	// key is the file of a public key; empty if the catalog need not be signed.
	key    string
	dryRun cmdutil.DryRun
}

// catalogInstallCommand returns 'catalog install'. It prints each object that changes, and then one line with the counts. The exit status is 1 if nothing is
// written because of a conflict, a missing signature or an object that the API server would refuse, and 2 for a fault: a registry or cluster that does
// not answer, a missing permission to list, or an installation that stopped half-way.
func catalogInstallCommand(s *cmdutil.Session) *cobra.Command {
	i := installRun{catalogOptions: newCatalogOptions(s)}
	cmd := &cobra.Command{
		Use: "install DIR|FILE|-|oci://HOST/REPOSITORY:VERSION", Short: "Install a version of a catalog in the cluster",
		Long: "Install a version of a catalog in the cluster, by server-side apply with the field manager '" +
			cataloginstall.FieldManager + "'. Objects that the\n" +
			"version no longer has are deleted, or marked 'kilnvm.io/lifecycle: obsolete' if VMs or VMIs use them. Existing VMs keep\n" +
			"their revisions.\n\n" +
			"All changes are first tried in a dry run of the API server: if it refuses one, or if an object belongs to others,\n" +
			"nothing is written and the exit status is 1. The next run completes an interrupted one.",
		Example: "  kubectl kiln catalog install oci://registry.example.org/catalogs/general:1.1.0 --key cosign.pub --dry-run\n" +
			"  kubectl kiln catalog install catalog/ --name general",
		Args: cobra.ExactArgs(1),
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return i.installCatalog(cmd.Context(), args[0]) }
	cmd.Flags().StringVar(&i.Name, "name", "", "name of the catalog in the cluster; default: the last part of the OCI repository")
	cmd.Flags().StringVar(&i.key, "key", "", "file of a public key, in PEM: install only a catalog with a signature of this key")
	cmd.Flags().BoolVar(&i.Force, "force", false, "take over objects and fields that belong to others")
	cmdutil.AddDryRun(cmd, &i.dryRun)
	i.AddRegistry(cmd)
	i.AddOutput(cmd, "text", "text", "json", "yaml")
	i.Answers(cmd, "CatalogInstallation", installReport{})
	return cmd
}

// catalogUninstallCommand returns 'catalog uninstall', with the same exit statuses as 'catalog install'. It fails if no object has the name, because a
// misspelled name must not look like a removal. It does not read the catalog, and works without its registry.
func catalogUninstallCommand(s *cmdutil.Session) *cobra.Command {
	i := installRun{catalogOptions: newCatalogOptions(s)}
	cmd := &cobra.Command{
		Use: "uninstall NAME", Short: "Remove a catalog from the cluster",
		Long: "Remove a catalog from the cluster. Objects that VMs or VMIs use are kept and marked 'kilnvm.io/lifecycle: obsolete': run the\n" +
			"command again when they are no longer used. Existing VMs keep their revisions.",
		Example: "  kubectl kiln catalog uninstall general --dry-run",
		Args:    cobra.ExactArgs(1),
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		i.Name = args[0]
		return i.uninstallCatalog(cmd.Context())
	}
	cmd.Flags().BoolVar(&i.Force, "force", false, "mark objects even if others own the label")
	cmdutil.AddDryRun(cmd, &i.dryRun)
	i.AddOutput(cmd, "text", "text", "json", "yaml")
	i.Answers(cmd, "CatalogInstallation", installReport{})
	return cmd
}

// installCatalog reads the catalog and installs it. It checks the name after the catalog is read, because the name of the repository is the default.
func (i *installRun) installCatalog(ctx context.Context, source string) error {
	read, err := i.readCatalog(ctx, source)
	if err != nil {
		return err
	}
	for _, refused := range read.Refused { // errors have ended the run
		i.Warn(cmdutil.Printable(fmt.Sprintf("%s: left out: %s", refused.File, refused.Message)))
	}
	if err := checkCatalogName(i.Name); err != nil {
		return err
	}
	return i.runPlan(ctx, func(s cataloginstall.State) (cataloginstall.Plan, error) { return i.Plan(read, s), nil })
}

// uninstallCatalog removes all objects of the catalog.
func (i *installRun) uninstallCatalog(ctx context.Context) error {
	if err := checkCatalogName(i.Name); err != nil {
		return err
	}
	return i.runPlan(ctx, func(s cataloginstall.State) (cataloginstall.Plan, error) {
		return i.PlanRemoval(s), i.CheckInstalled(s)
	})
}

// checkCatalogName refuses a name that is not a DNS label (RFC 1123), which is stricter than Kubernetes' check of the value of a label.
// The name is the value of the label kilnvm.io/catalog.
func checkCatalogName(name string) error {
	if name == "" {
		return errors.New("--name must name the catalog: only an OCI reference has a default")
	}
	if wrong := validation.IsDNS1123Label(name); len(wrong) > 0 {
		return fmt.Errorf("the name '%s' of the catalog must have at most 63 lower-case letters, digits and '-': choose one with --name", cmdutil.Printable(name))
	}
	return nil
}

// readCatalog returns the catalog, and sets the fields of its installation.
// A catalog of a registry has a version, a source and a default name. A catalog of files has only a digest, which is the digest of its content.
func (i *installRun) readCatalog(ctx context.Context, source string) (read catalogs.Catalog, err error) {
	switch {
	case source == catalogsource.Cluster:
		return read, errors.New("the catalog of the cluster is installed already: name a folder, a file, '-' or an OCI reference")
	case strings.HasPrefix(source, oci.Scheme):
		if source, err = i.pinPublished(ctx, source); err != nil {
			return read, err
		}
	case i.key != "":
		return read, errors.New("--key verifies an OCI reference: files have no signature")
	}
	if read, err = i.readPublishable(ctx, source); err != nil || i.Digest != "" {
		return read, err
	}
	i.Digest, err = read.Digest()
	return read, err
}

// pinPublished resolves a reference, verifies it if a key is given, and returns a reference by digest, because a tag may move. The version is the version in
// the manifest, which is signed, not the tag. A tag of another version is refused, because a registry could offer an old version as a new one.
func (i *installRun) pinPublished(ctx context.Context, source string) (pinned string, err error) {
	client, err := i.RegistryClient()
	if err != nil {
		return "", err
	}
	found, err := i.resolveDigest(ctx, client, source)
	if err != nil {
		return "", err
	}
	if pinned, err = oci.Pinned(source, found); err != nil {
		return "", err
	}
	manifest, err := client.Inspect(ctx, pinned)
	if err != nil {
		return "", err
	}
	repository, _, _ := strings.Cut(pinned, "@")
	i.Digest, i.Source, i.Name = found.String(), repository, cmp.Or(i.Name, path.Base(repository))
	if v, err := catalogs.ParseVersion(manifest.Annotations[ocispec.AnnotationVersion]); err == nil {
		i.Version = v.Tag
	}
	_, tag, _ := cutTag(source)
	if _, err := catalogs.ParseVersion(tag); err == nil && tag != i.Version {
		return "", fmt.Errorf("the tag '%s' names version '%s' of the catalog: the tag was moved, name the version or its digest", tag, i.Version)
	}
	return pinned, nil
}

// resolveDigest returns the digest that a reference names now. With a key, it fails unless the digest has a signature of the key.
// All later reads use this digest: otherwise a registry could return a signed artifact for the verification and another one for the installation.
func (i *installRun) resolveDigest(ctx context.Context, client *oci.Client, source string) (digest.Digest, error) {
	if i.key != "" {
		return i.verifySignature(ctx, client, signedBy{source, i.key})
	}
	return client.Resolve(ctx, source)
}

// runPlan plans the changes of a catalog, tries all of them in a dry run of the API server, and writes them.
// If a write fails after the dry run, the report lists the changes that were written, and the next run completes them.
func (i *installRun) runPlan(ctx context.Context, plan func(cataloginstall.State) (cataloginstall.Plan, error)) error {
	namespace, err := i.Cluster.Namespace()
	if err != nil {
		return err
	}
	cluster, err := i.WarningClient()
	if err != nil {
		return err
	}
	state, err := cataloginstall.ReadState(ctx, cluster, namespace)
	if err != nil {
		return err
	}
	p, err := plan(state)
	if err != nil {
		return err
	}
	if len(p.Conflicts) == 0 {
		if p.Conflicts, err = p.Check(ctx, cluster); err != nil {
			return err
		}
	}
	report := installReport{Plan: p, DryRun: bool(i.dryRun)}
	if len(p.Conflicts) > 0 {
		return i.printConflicts(report)
	}
	report.Actions = nil
	done := func(a cataloginstall.Action) {
		report.Actions = append(report.Actions, a)
		i.printAction(a)
	}
	if i.dryRun {
		for _, a := range p.Actions {
			done(a)
		}
	} else {
		err = p.Run(ctx, cluster, done)
	}
	if err != nil {
		err = fmt.Errorf("%w; %d of %d objects are done: run the command again for the rest", err, len(report.Actions), len(p.Actions))
	}
	return errors.Join(err, i.printInstalled(report))
}
