package catalogcmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/kilnvm/kiln/internal/cli/cmdutil"
	"github.com/kilnvm/kiln/internal/oci"
	"github.com/kilnvm/kiln/internal/workbench/cataloginstall"
	"github.com/kilnvm/kiln/internal/workbench/catalogs"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/validation"
)

// install is a run of 'catalog install' or 'catalog uninstall'.
type install struct {
	catalogOptions
	cataloginstall.Installation
	// key is the file of a public key; empty for a catalog that need not be signed.
	key    string
	dryRun bool
}

// catalogInstallCommand is 'catalog install'. It prints each object that changes, then one line with the counts. The exit status is 1 if nothing is
// written because of a conflict, a missing signature or an object that an API server would refuse, and 2 for a fault: a registry or cluster that does
// not answer, a missing right to list, or an installation that stopped half-way.
func catalogInstallCommand(s *cmdutil.Session) *cobra.Command {
	i := install{catalogOptions: newCatalogOptions(s)}
	cmd := &cobra.Command{
		Use: "install DIR|FILE|-|oci://HOST/REPOSITORY:VERSION", Short: "Install a version of a catalog in the cluster",
		Long: "Install a version of a catalog in the cluster, by server-side apply with the field manager '" +
			cataloginstall.FieldManager + "'. Objects that the\n" +
			"version no longer has are deleted, or marked 'kilnvm.io/lifecycle: obsolete' if VMs or VMIs use them. VMs that exist keep\n" +
			"their revisions.\n\n" +
			"All changes are tried in a dry run of the API server first: if it refuses one, or if an object belongs to others,\n" +
			"nothing is written and the exit status is 1. A run that was interrupted is finished by the next one.",
		Example: "  kubectl kiln catalog install oci://registry.example.org/catalogs/general:1.1.0 --key cosign.pub --dry-run\n" +
			"  kubectl kiln catalog install catalog/ --name general",
		Args: cobra.ExactArgs(1),
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return i.install(cmd.Context(), args[0]) }
	cmd.Flags().StringVar(&i.Name, "name", "", "name of the catalog in the cluster; default: the last part of the OCI repository")
	cmd.Flags().StringVar(&i.key, "key", "", "file of a public key, in PEM: install only what it has signed")
	cmd.Flags().BoolVar(&i.Force, "force", false, "take over objects and fields that belong to others")
	cmd.Flags().BoolVar(&i.dryRun, "dry-run", false, "show what would change, by a dry run of the API server, and write nothing")
	i.AddRegistry(cmd)
	i.AddOutput(cmd, "text", "text", "json", "yaml")
	return cmd
}

// catalogUninstallCommand is 'catalog uninstall'. Its exit statuses are those of 'catalog install'. A name that no object has is a fault: a mistyped
// name must not look like a removal. It reads no catalog, so that it works when the registry is gone.
func catalogUninstallCommand(s *cmdutil.Session) *cobra.Command {
	i := install{catalogOptions: newCatalogOptions(s)}
	cmd := &cobra.Command{
		Use: "uninstall NAME", Short: "Remove a catalog from the cluster",
		Long: "Remove a catalog from the cluster. What VMs or VMIs use is marked 'kilnvm.io/lifecycle: obsolete' and stays: run the command\n" +
			"again when they are gone. VMs that exist keep their revisions.",
		Example: "  kubectl kiln catalog uninstall general --dry-run",
		Args:    cobra.ExactArgs(1),
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		i.Name = args[0]
		return i.uninstall(cmd.Context())
	}
	cmd.Flags().BoolVar(&i.Force, "force", false, "mark objects also where others own the label")
	cmd.Flags().BoolVar(&i.dryRun, "dry-run", false, "show what would change, by a dry run of the API server, and write nothing")
	i.AddOutput(cmd, "text", "text", "json", "yaml")
	return cmd
}

// install reads the catalog, then plans by the state of the cluster. The name is judged after the reading, because a repository may give it.
func (i *install) install(ctx context.Context, source string) error {
	read, err := i.read(ctx, source)
	if err != nil {
		return err
	}
	for _, refused := range read.Refused { // errors have ended the run
		i.Warn(cmdutil.Printable(fmt.Sprintf("%s: left out: %s", refused.File, refused.Message)))
	}
	if err := checkCatalogName(i.Name); err != nil {
		return err
	}
	return i.run(ctx, func(s cataloginstall.State) (cataloginstall.Plan, error) { return i.Plan(read, s), nil })
}

// uninstall plans the removal of all that has the name of the catalog.
func (i *install) uninstall(ctx context.Context) error {
	if err := checkCatalogName(i.Name); err != nil {
		return err
	}
	return i.run(ctx, func(s cataloginstall.State) (cataloginstall.Plan, error) {
		return i.PlanRemoval(s), i.Known(s)
	})
}

// checkCatalogName refuses a name that cannot be the value of a label.
// The name is the value of label kilnvm.io/catalog. The check is stricter than Kubernetes' for values of labels: it is that of a DNS label (RFC 1123).
func checkCatalogName(name string) error {
	if name == "" {
		return errors.New("--name must name the catalog: only an OCI repository has a name of its own")
	}
	if wrong := validation.IsDNS1123Label(name); len(wrong) > 0 {
		return fmt.Errorf("the name '%s' of the catalog must have at most 63 lower-case letters, digits and '-': choose one with --name", cmdutil.Printable(name))
	}
	return nil
}

// read returns the catalog, and fills in what it is installed as.
// A registry gives version, source and, without --name, the name. Files have neither version nor source; their digest is that of their contents.
func (i *install) read(ctx context.Context, source string) (read catalogs.Catalog, err error) {
	switch {
	case source == cmdutil.ClusterSource:
		return read, errors.New("the catalog of the cluster is installed already: name a folder, a file, '-' or an OCI reference")
	case strings.HasPrefix(source, oci.Scheme):
		if source, err = i.published(ctx, source); err != nil {
			return read, err
		}
	case i.key != "":
		return read, errors.New("--key verifies an OCI reference: files have no signature")
	}
	if read, err = i.publishable(ctx, source); err != nil || i.Digest != "" {
		return read, err
	}
	i.Digest, err = read.Digest()
	return read, err
}

// published resolves a reference once, verified if a key is given, and returns that of its digest: a tag may move meanwhile. The version is that of
// the manifest, which is signed, and not the tag. A tag of another version is refused, as it may offer an old version for a new one.
func (i *install) published(ctx context.Context, source string) (pinned string, err error) {
	client, err := i.RegistryClient()
	if err != nil {
		return "", err
	}
	found, err := i.digest(ctx, client, source)
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

// digest returns the digest that a reference has now; with a key it is one that the key has signed.
// All later reads name this digest. Otherwise a registry could show a signed artifact to the verification and another one to the installation.
func (i *install) digest(ctx context.Context, client *oci.Client, source string) (digest.Digest, error) {
	if i.key != "" {
		return i.verified(ctx, client, signedBy{source, i.key})
	}
	return client.Resolve(ctx, source)
}

// run plans, tries and does the changes of a catalog.
// The plan is computed anew at each run, because an installation has no record of its own that could disagree with the objects after a kill.
// A dry run of the API server tries all changes before the first is written. A fault after that leaves some written: the report lists these,
// and the next run finishes.
func (i *install) run(ctx context.Context, plan func(cataloginstall.State) (cataloginstall.Plan, error)) error {
	namespace, _, err := i.Cluster.ToRawKubeConfigLoader().Namespace()
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
	report := installReport{Plan: p, DryRun: i.dryRun}
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
		err = fmt.Errorf("%w; %d of %d objects are done: run the command again to finish", err, len(report.Actions), len(p.Actions))
	}
	return errors.Join(err, i.printInstalled(report))
}
