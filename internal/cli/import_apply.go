package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/kilnvm/kiln/internal/cli/cmdutil"
	"github.com/kilnvm/kiln/internal/workbench/domainimport"
	"github.com/kilnvm/kiln/internal/workbench/manifest"
)

// readCluster reads what the cluster decides about an import that is created there: the namespace, the configuration, and whether KubeVirt runs the guests. A
// record for guests of KubeVirt has fewer fields, so that a user who may not read this gets the warning.
func (o *importRun) readCluster(ctx context.Context, made *domainimport.Options) (err error) {
	if made.Namespace, err = o.Cluster.Namespace(); err != nil {
		return err
	}
	cluster, err := o.Client()
	if err != nil {
		return err
	}
	_, warnings, err := o.Bench.Configuration(ctx, manifest.Inputs{Reader: cluster, OfCluster: true})
	o.Warn(warnings...)
	return err
}

// applyImport creates the objects in the cluster. It prints why nothing is written, and returns ErrRejected then.
func (o *importRun) applyImport(ctx context.Context, made *domainimport.Import) ([]domainimport.Written, error) {
	checks, err := o.Client()
	if err != nil {
		return nil, err
	}
	writes, err := o.WarningClient()
	if err != nil {
		return nil, err
	}
	written, conflicts, err := made.Apply(ctx, checks, writes)
	switch {
	case err != nil:
		o.printWritten(written)
		return nil, err
	case len(conflicts) > 0:
		return nil, o.printConflicts(made, conflicts)
	case made.VM == nil: // the record was the only thing to do
		made.Report.Steps = nil
	}
	return written, nil
}

// printConflicts prints why nothing is written. It returns ErrRejected.
func (o *importRun) printConflicts(made *domainimport.Import, conflicts []domainimport.Conflict) error {
	if o.Documents {
		answer, err := made.Answer()
		answer.Conflicts = conflicts
		return cmdutil.Worse(errors.Join(err, o.Print(answer)), cmdutil.ErrRejected)
	}
	for _, c := range conflicts {
		fmt.Fprintln(o.ErrOut, cmdutil.Printable(c.String()+": "+cmdutil.WithoutPreamble(c.Reason)))
	}
	fmt.Fprintf(o.ErrOut, "%s: nothing is written\n", cmdutil.Counted(len(conflicts), "conflict"))
	return cmdutil.ErrRejected
}

// printWritten prints a line for each object.
func (o *importRun) printWritten(written []domainimport.Written) {
	if o.Output == "json" {
		return
	}
	for _, w := range written {
		change := "unchanged"
		if w.Created {
			change = "created"
		}
		fmt.Fprintln(o.Out, cmdutil.Printable(w.String()+": "+change))
	}
}
