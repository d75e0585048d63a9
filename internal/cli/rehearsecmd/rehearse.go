// Package rehearsecmd is 'kubectl kiln rehearse': what a change would do to each VM of a cluster or a dump.
package rehearsecmd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kilnvm/kiln/internal/cli/cmdutil"
	"github.com/kilnvm/kiln/internal/cli/cmdutil/catalogsource"
	"github.com/kilnvm/kiln/internal/oci"
	"github.com/kilnvm/kiln/internal/workbench/manifest"
	"github.com/kilnvm/kiln/internal/workbench/rehearsal"
	"github.com/spf13/cobra"
)

// rehearseRun is a run of 'rehearse'.
type rehearseRun struct {
	cmdutil.Inputs
	catalogsource.Reader

	with       []string
	everywhere bool
	ownerLabel string
	state      string
	plan       string
	html       string
}

// Command returns 'rehearse'. It only reads. Its exit statuses are the same as of 'catalog diff'.
func Command(s *cmdutil.Session) *cobra.Command {
	o := &rehearseRun{Inputs: cmdutil.NewInputs(s), Reader: catalogsource.New(s)}
	cmd := &cobra.Command{
		Use:   "rehearse [-A | -f FILE|DIR|-] [--with CHANGE ...]",
		Short: "Say what a change would do to each VM before it is made",
		Long: "Say of each VM what a change would do before it is made: whose guest notices something, and which VMs would be refused. A VM\n" +
			"is compared as it boots next now, and as it would boot after the change and 'kubectl kiln repin'. Nothing is written.\n\n" +
			"The exit status is 0 if the VMs that a change touches are the same or change live, 3 if one needs a restart, 4 if one breaks\n" +
			"or is refused, and 2 if something was not judged.",
		Example: "  kubectl kiln rehearse -f dump.yaml --with windows.11.yaml\n" +
			"  kubectl kiln rehearse -A --with oci://registry.example.org/catalogs/general:1.1.0 --state rehearsal.state -o csv",
		Args: cobra.NoArgs,
	}
	flags := cmd.Flags()
	flags.BoolVarP(&o.everywhere, "all-namespaces", "A", false, "rehearse the VMs of all namespaces")
	flags.StringSliceVarP(&o.Files.Names, "filename", "f", nil, "file, directory or - with a dump of a cluster, instead of the cluster")
	flags.StringArrayVar(&o.with, "with", nil, "change to rehearse: FILE, DIR, catalog=SOURCE, oci://REFERENCE, kubevirt=VERSION or kiln=PROGRAM; may be repeated")
	flags.StringVar(&o.ownerLabel, "owner-label", rehearsal.DefaultOwnerLabel, "label of VMs that says whose they are")
	flags.StringVar(&o.plan, "plan", "", "write the pins that were rehearsed into this file, which 'kubectl kiln repin --plan' follows")
	flags.StringVar(&o.html, "html", "", "write the answer into this file, a page that can be sent")
	flags.StringVar(&o.state, "state", "", "file that keeps results: the next run computes only what has changed since")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		found, err := o.rehearse(cmd.Context())
		if err != nil {
			return err
		}
		o.Warn(found.Warnings...)
		if err := o.writeFiles(found); err != nil {
			return err
		}
		return o.report(found)
	}
	o.AddConfig(cmd)
	o.AddRegistry(cmd)
	o.AddOutput(cmd, "text", "text", "wide", "csv", "json", "yaml")
	o.Answers(cmd, "Rehearsal", rehearsal.Rehearsal{})
	return cmd
}

// rehearse reads the changes, and rehearses them for the dump if the user named one, and otherwise for the cluster.
func (o *rehearseRun) rehearse(ctx context.Context) (*rehearsal.Rehearsal, error) {
	if at := slices.IndexFunc(o.with, func(change string) bool { return strings.HasPrefix(change, withKiln) }); at >= 0 {
		return o.rehearseKiln(ctx, strings.TrimPrefix(o.with[at], withKiln))
	}
	laid, err := o.readChanges(ctx)
	if err != nil {
		return nil, err
	}
	options := rehearsal.Options{Laid: laid, OwnerLabel: o.ownerLabel, Progress: o.progress()}
	if o.state != "" {
		options.State = rehearsal.NewState(o.state)
	}
	if o.Files.Named() {
		dump, err := o.Files.ReadDump()
		if err != nil {
			return nil, err
		}
		found, err := rehearsal.OfDump(ctx, &o.Bench, dump, options)
		if err == nil && len(found.VMs)+len(found.Unjudged) == 0 {
			err = o.NothingFound("VirtualMachine", nil)
		}
		return found, err
	}
	cluster, namespace, err := o.ScopedClient(o.everywhere)
	if err != nil {
		return nil, err
	}
	return rehearsal.OfCluster(ctx, &o.Bench, cluster, namespace, options)
}

// Prefixes of values of --with.
const (
	withCatalog  = "catalog="
	withKubeVirt = "kubevirt="
	withKiln     = "kiln="
)

// readChanges reads the values of --with.
func (o *rehearseRun) readChanges(ctx context.Context) (*rehearsal.Laid, error) {
	laid := &rehearsal.Laid{}
	for _, change := range o.with {
		var err error
		source, whole := strings.CutPrefix(change, withCatalog)
		version, kubevirt := strings.CutPrefix(change, withKubeVirt)
		switch {
		case kubevirt:
			err = laid.AddKubeVirt(version)
		case whole || strings.HasPrefix(change, oci.Scheme):
			err = o.addCatalog(ctx, laid, source)
		default:
			namespace, _ := o.Cluster.Namespace() // a dump needs no kubeconfig
			err = laid.AddFiles(change, manifest.Files{Names: []string{change}, Namespace: namespace, Stdin: o.In})
		}
		if err != nil {
			return nil, fmt.Errorf("--with: %w", err)
		}
	}
	return laid, nil
}

// addCatalog adds a version of a whole catalog.
func (o *rehearseRun) addCatalog(ctx context.Context, laid *rehearsal.Laid, source string) error {
	if source == catalogsource.Cluster {
		return errors.New("catalog=cluster is what is installed, and no change: name a folder, a file or an OCI reference")
	}
	read, err := o.ReadCatalog(ctx, source)
	if err != nil {
		return err
	}
	return laid.AddCatalog(source, read)
}

// progressInterval is the time between two lines about the progress: a short run prints none.
const progressInterval = 5 * time.Second

// progress returns a function that prints how many VMs are done, from time to time.
func (o *rehearseRun) progress() func(int) {
	last := time.Now()
	return func(done int) {
		if time.Since(last) >= progressInterval {
			last = time.Now()
			fmt.Fprintf(o.ErrOut, "%s done\n", cmdutil.Counted(done, "VM"))
		}
	}
}

// report prints a rehearsal, and returns the error of its exit status.
func (o *rehearseRun) report(r *rehearsal.Rehearsal) error {
	outcome := o.outcome(r)
	switch o.Output {
	case "text", "wide":
		writeRehearsal(o.Out, r, o.Output == "wide")
	case "csv":
		if err := writeCSV(o.Out, r); err != nil {
			return err
		}
	default:
		return errors.Join(o.Print(*r), outcome)
	}
	var why cmdutil.Reasons
	for _, u := range r.Unjudged {
		why.Add(u.What, u.Reason)
	}
	for _, line := range why.Lines() {
		fmt.Fprintln(o.ErrOut, cmdutil.Printable("error: "+line))
	}
	return outcome
}

// writeFiles writes the plan and the page, if the user named files for them.
func (o *rehearseRun) writeFiles(r *rehearsal.Rehearsal) error {
	if o.plan != "" {
		if err := r.MakePlan().Write(o.plan); err != nil {
			return fmt.Errorf("--plan: %w", err)
		}
	}
	if o.html == "" {
		return nil
	}
	page, err := Page(r)
	if err == nil {
		err = rehearsal.WriteAtomically(o.html, page)
	}
	if err != nil {
		return fmt.Errorf("--html: %w", err)
	}
	return nil
}

// outcome returns the error of the exit status. A VM that breaks or is refused decides, even if others were not judged; else what was not judged may be as bad.
func (o *rehearseRun) outcome(r *rehearsal.Rehearsal) error {
	count := r.Touched
	if len(o.with) == 0 {
		count = func(v rehearsal.Verdict) int { return r.Counts[v] }
	}
	switch {
	case count(rehearsal.Breaks)+count(rehearsal.Refused) > 0:
		return cmdutil.ErrBreaks
	case len(r.Unjudged) > 0:
		return cmdutil.ErrUnanswered
	case count(rehearsal.Restart) > 0:
		return cmdutil.ErrNeedsRestart
	}
	return nil
}
