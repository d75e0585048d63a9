package catalogcmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kilnvm/kiln/internal/cli/cmdutil"
	"github.com/kilnvm/kiln/internal/oci"
	"github.com/kilnvm/kiln/internal/workbench/cataloginstall"
	"github.com/kilnvm/kiln/internal/workbench/catalogs"
	"github.com/kilnvm/kiln/internal/workbench/rehearsal"
	"github.com/kilnvm/kiln/pkg/catalog"
	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// statusRun is a run of 'catalog status'.
type statusRun struct {
	catalogOptions
	// keys are files of public keys.
	keys []string
	// everywhere has the newest version be rehearsed for the VMs of all namespaces.
	everywhere bool
}

// catalogStatusReport is the answer of 'catalog status'.
type catalogStatusReport struct {
	Catalogs []catalogStatus `json:"catalogs"`
}

// catalogStatus is the state of one installed catalog.
type catalogStatus struct {
	cataloginstall.Installed
	// SignedBy has the files of the keys with a valid signature of the installed version. It is absent if no key was given, or if nothing was read from the
	// registry.
	SignedBy []string `json:"signedBy,omitempty"`
	// Unsigned reports that no given key has signed the installed version.
	Unsigned bool `json:"unsigned,omitempty"`
	// Drift has what differs from the installed version, and Conflicts the objects that another owner has taken.
	Drift     []cataloginstall.Action   `json:"drift"`
	Conflicts []cataloginstall.Conflict `json:"conflicts,omitempty"`
	Newest    *newestVersion            `json:"newest,omitempty"`
	// Unknown says why something of the above is not known.
	Unknown []string `json:"unknown,omitempty"`
}

// newestVersion is the newest version in the registry, if it is newer than the installed one.
type newestVersion struct {
	Version string `json:"version"`
	// Difference is the step from the installed version, as 'catalog diff' judges it.
	Difference catalog.Difference `json:"difference"`
	// VMs are the VMs that the version touches, by the verdict of a rehearsal.
	VMs map[rehearsal.Verdict]int `json:"virtualMachines"`

	content catalogs.Catalog
}

// catalogStatusCommand returns 'catalog status'. The exit status is 1 if an object differs from its version, if an installation was interrupted or if a
// signature is missing, and 2 if something could not be found out. A newer version alone does not change the status.
func catalogStatusCommand(s *cmdutil.Session) *cobra.Command {
	o := &statusRun{catalogOptions: newCatalogOptions(s)}
	cmd := &cobra.Command{
		Use: "status [NAME ...]", Short: "Show which version of each catalog is installed, who signed it, what drifted, and what is newer",
		Long: "Show which version of each catalog is installed, which keys have signed it, which objects differ from it, and the newest version\n" +
			"in its registry. Only reads. The registry of a catalog whose objects are all in one namespace is asked only if NAME names the\n" +
			"catalog: its owner may be a tenant.\n\n" +
			"The exit status is 1 if an object differs from its version, an installation was interrupted or a signature is missing, and 2 if\n" +
			"something could not be found out. A newer version does not change it. It is rehearsed for the VMs of the namespace, with -A of the\n" +
			"cluster; 'kubectl kiln rehearse' shows each VM.",
		Example: "  kubectl kiln catalog status -A --key cosign.pub\n" +
			"  kubectl kiln catalog status general -o json",
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return o.showStatus(cmd.Context(), args) }
	cmd.Flags().StringArrayVar(&o.keys, "key", nil, "file of a public key, in PEM, whose signature is looked for; may be repeated")
	cmd.Flags().BoolVarP(&o.everywhere, "all-namespaces", "A", false, "rehearse the newest version for the VMs of all namespaces")
	o.AddRegistry(cmd)
	o.AddOutput(cmd, "text", "text", "json", "yaml")
	o.Answers(cmd, "CatalogStatus", catalogStatusReport{})
	return cmd
}

// showStatus prints the status of the named catalogs, or of all.
func (o *statusRun) showStatus(ctx context.Context, names []string) error {
	for _, key := range o.keys { // a misspelled file must not look like a missing signature
		if _, err := readKey(key); err != nil {
			return err
		}
	}
	namespace, err := o.Cluster.Namespace()
	if err != nil {
		return err
	}
	cluster, err := o.Client()
	if err != nil {
		return err
	}
	state, err := cataloginstall.ReadState(ctx, cluster, namespace)
	if err != nil {
		return err
	}
	installed := state.Installed()
	for _, name := range names {
		if !slices.ContainsFunc(installed, func(i cataloginstall.Installed) bool { return i.Name == name }) {
			return fmt.Errorf("no object belongs to a catalog '%s'", cmdutil.Printable(name))
		}
	}
	report := catalogStatusReport{Catalogs: []catalogStatus{}}
	for _, one := range installed {
		named := slices.Contains(names, one.Name)
		if len(names) > 0 && !named {
			continue
		}
		status := o.statusOf(ctx, one, state, named)
		if status.Newest != nil {
			if err := o.rehearse(ctx, cluster, state.Namespace, status.Newest); err != nil {
				status.Unknown = append(status.Unknown, fmt.Sprintf("what version %s does to VMs is not known: %v", status.Newest.Version, err))
			}
		}
		report.Catalogs = append(report.Catalogs, status)
	}
	return o.printStatus(report)
}

// statusOf returns the status of one catalog. named is true if the user named it. What the registry does not tell is in Unknown.
func (o *statusRun) statusOf(ctx context.Context, of cataloginstall.Installed, state cataloginstall.State, named bool) catalogStatus {
	status := catalogStatus{Installed: of, Drift: []cataloginstall.Action{}}
	unknown := func(format string, args ...any) catalogStatus {
		status.Unknown = append(status.Unknown, fmt.Sprintf(format, args...))
		return status
	}
	version := of.Versions[0]
	switch {
	case len(of.Sources) > 1:
		return unknown("its objects name %d repositories: %s", len(of.Sources), strings.Join(of.Sources[:min(len(of.Sources), cmdutil.Shown)], ", "))
	case of.Source == "":
		return unknown("it was installed from files: 'kubectl kiln catalog install DIR --name %s --dry-run' compares them with the cluster", of.Name)
	case of.OfNamespace && !named:
		return unknown("all of its objects are in one namespace: 'kubectl kiln catalog status %s' asks its registry", of.Name)
	}
	source := oci.Scheme + strings.TrimPrefix(of.Source, oci.Scheme)
	pinned := source + "@" + version.Digest
	published, err := o.readPublishable(ctx, pinned)
	if err != nil {
		return unknown("version %s cannot be read: %v", version.Version, err)
	}
	status.Drift, status.Conflicts = of.Drift(published, state)
	if status.Drift == nil {
		status.Drift = []cataloginstall.Action{}
	}
	if err := o.findSignatures(ctx, &status, pinned); err != nil {
		unknown("the signatures cannot be read: %v", err)
	}
	newest, err := o.newestOf(ctx, source, version, published)
	if err != nil {
		return unknown("newer versions are not known: %v", err)
	}
	status.Newest = newest
	return status
}

// findSignatures looks for signatures of the given keys.
func (o *statusRun) findSignatures(ctx context.Context, status *catalogStatus, pinned string) error {
	if len(o.keys) == 0 {
		return nil
	}
	client, err := o.RegistryClient()
	if err != nil {
		return err
	}
	for _, file := range o.keys {
		key, err := readKey(file)
		if err != nil {
			return err
		}
		_, err = client.Verify(ctx, pinned, key)
		var unsigned *oci.UnsignedError
		switch {
		case err == nil:
			status.SignedBy = append(status.SignedBy, file)
		case !errors.As(err, &unsigned):
			return err
		}
	}
	status.Unsigned = len(status.SignedBy) == 0
	return nil
}

// newestOf compares the newest version of a repository with the installed one. It returns nil if there is no newer version.
func (o *statusRun) newestOf(ctx context.Context, source string, has cataloginstall.InstalledVersion, published catalogs.Catalog) (*newestVersion, error) {
	client, err := o.RegistryClient()
	if err != nil {
		return nil, err
	}
	tags, err := client.Tags(ctx, source+"@"+has.Digest, mostTags)
	if err != nil {
		return nil, err
	}
	newest, found := catalogs.Newest(tags)
	installed, err := catalogs.ParseVersion(has.Version)
	if err != nil || !found || !newest.NewerThan(installed) {
		return nil, err
	}
	next, err := o.readPublishable(ctx, source+":"+newest.Tag)
	if err != nil {
		return nil, err
	}
	difference, warnings, err := catalogs.Compare(ctx, &o.Bench, [2]catalogs.Catalog{published, next}, time.Now())
	o.Warn(warnings...)
	return &newestVersion{Version: newest.Tag, Difference: difference, content: next}, err
}

// rehearse counts the VMs that the newest version touches.
func (o *statusRun) rehearse(ctx context.Context, cluster client.Reader, namespace string, newest *newestVersion) error {
	laid := &rehearsal.Laid{}
	if err := laid.AddCatalog(newest.Version, newest.content); err != nil {
		return err
	}
	if o.everywhere {
		namespace = ""
	}
	rehearsed, err := rehearsal.OfCluster(ctx, &o.Bench, cluster, namespace, rehearsal.Options{Laid: laid})
	if err != nil {
		return err
	}
	newest.VMs = map[rehearsal.Verdict]int{}
	for _, verdict := range rehearsal.Verdicts {
		if n := rehearsed.Touched(verdict); n > 0 {
			newest.VMs[verdict] = n
		}
	}
	return nil
}

// printStatus prints the catalogs, and returns the error for the exit status.
func (o *statusRun) printStatus(report catalogStatusReport) (outcome error) {
	for _, status := range report.Catalogs {
		if len(status.Drift)+len(status.Conflicts) > 0 || status.Unsigned || len(status.Versions) > 1 {
			outcome = cmdutil.Worse(outcome, cmdutil.ErrRejected)
		}
		if len(status.Unknown) > 0 && status.Source != "" {
			outcome = cmdutil.Worse(outcome, cmdutil.ErrUnanswered)
		}
	}
	if o.Documents {
		return errors.Join(o.Print(report), outcome)
	}
	if len(report.Catalogs) == 0 {
		fmt.Fprintln(o.ErrOut, "no catalog is installed")
	}
	for _, status := range report.Catalogs {
		o.printCatalogStatus(status)
	}
	return outcome
}

// printCatalogStatus prints one catalog. It replaces control characters, because annotations are not trusted.
func (o *statusRun) printCatalogStatus(s catalogStatus) {
	say := func(format string, args ...any) { fmt.Fprintln(o.Out, cmdutil.Printable(fmt.Sprintf(format, args...))) }
	say("%s", strings.Join(strings.Fields(s.Name+" "+s.Versions[0].Version+" "+s.Source), " "))
	for i, version := range s.Versions {
		label := "installed"
		if i > 0 {
			label = "also installed, because an installation was interrupted: run it again"
		}
		say("  %s: %s of %s", label, cmdutil.Counted(version.Objects, "object"), strings.TrimSpace(version.Version+" "+version.Digest))
	}
	switch {
	case len(s.SignedBy) > 0:
		say("  signed by the key of %s", strings.Join(s.SignedBy, ", "))
	case s.Unsigned:
		say("  NOT SIGNED by any of the given keys")
	}
	for _, action := range s.Drift {
		reason := action.Reason
		if reason != "" {
			reason = ": " + reason
		}
		say("  differs: %s, %s%s", action.Key, driftWords[action.Change], reason)
	}
	for _, conflict := range s.Conflicts {
		say("  differs: %s", strings.TrimPrefix(conflict.Key.String()+" "+conflict.Reason, " "))
	}
	for _, unknown := range s.Unknown {
		say("  not known: %s", unknown)
	}
	if s.Newest != nil {
		d := s.Newest.Difference
		counts := map[string]int{}
		for _, c := range d.Changes {
			counts[c.Action]++
		}
		say("  newest: %s, %s: %d added, %d removed, %d changed; %s. 'kubectl kiln rehearse --with %s:%s' shows it for each VM", s.Newest.Version, d.Verdict,
			counts[catalog.Added], counts[catalog.Removed], counts[catalog.Changed], describeVMCounts(s.Newest.VMs),
			oci.Scheme+strings.TrimPrefix(s.Source, oci.Scheme), s.Newest.Version)
	}
}

// describeVMCounts returns the numbers of VMs by verdict.
func describeVMCounts(of map[rehearsal.Verdict]int) string {
	var parts []string
	for _, verdict := range rehearsal.Verdicts {
		if n := of[verdict]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, verdict))
		}
	}
	return "VMs: " + cmp.Or(strings.Join(parts, ", "), "none")
}

// driftWords say what is wrong with an object that an installation would change.
var driftWords = map[cataloginstall.Change]string{
	cataloginstall.Create: "was deleted", cataloginstall.Update: "was edited", cataloginstall.Obsolete: "is not in the version",
	cataloginstall.Delete: "is not in the version", cataloginstall.Release: "is not in the version",
}
