package guestcmd

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/kilnvm/kiln/internal/cli/cmdutil"
	"github.com/kilnvm/kiln/internal/workbench/guestdiff"
	"github.com/kilnvm/kiln/pkg/record"
	"github.com/spf13/cobra"
)

// diffRun is a run of 'diff'.
type diffRun struct{ cmdutil.Comparison }

// The verdict of 'diff' depends on what the guests see (abi.Compare of both frontends), not on the text of the domains, which may differ from host to host
// though a guest sees no difference. The text diffs of specs and domains are only printed.

// DiffCommand returns 'diff'. Its exit status is the verdict, so that a pipeline can stop before a change that breaks hardware.
// The statuses of verdicts are 3 and 4, because 1 and 2 have the meaning of 'kubectl diff'.
func DiffCommand(s *cmdutil.Session) *cobra.Command {
	o := &diffRun{cmdutil.NewComparison(s)}
	cmd := &cobra.Command{
		Use:   "diff A [B]",
		Short: "Judge how a change affects the hardware that a guest sees",
		Long: "Judge how a change from A to B affects the hardware that a guest sees: it is compatible, or needs a restart, or\n" +
			"breaks the guest's hardware. If KubeVirt runs guests, changes that it makes in a running guest are compatible.\n" +
			"A and B are files with one VM or VMI, or objects of the cluster, such as vm/web. B is the next version\n" +
			"of A: it keeps A's identity, pins and recorded addresses. Without B, the running VMI is compared with the template of the\n" +
			"VM, or the record of the last boot if the VM does not run; with --latest, the record is compared with what\n" +
			"'kilnvm.io/hardware: latest' would boot; with --host twice, two hosts. Then the first line says what was compared.\n\n" +
			"The exit status is 0 if the change is compatible, 3 if it needs a restart, 4 if it breaks hardware, 1 if A or B is rejected.",
		Example: "  kubectl kiln diff vm/web new.yaml\n" +
			"  kubectl kiln diff vm/web\n" +
			"  kubectl kiln diff vm.yaml --host old-host.yaml --host new-host.yaml --domain",
		Args: cobra.RangeArgs(1, 2),
	}
	var hosts []string
	cmd.Flags().StringSliceVar(&hosts, "host", nil, "file with the HostCapabilities of a host; if it is given twice, the first is for A and the second for B")
	o.AddProfiles(cmd)
	domain := cmd.Flags().Bool("domain", false, "show how the complete libvirt domain changes, backends included")
	latest := cmd.Flags().Bool("latest", false, "show what 'kilnvm.io/hardware: latest' would change")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		d, err := o.compareNamedGuests(cmd.Context(), args, hosts, *latest)
		if err != nil {
			return err
		}
		return o.printDifference(d, *domain)
	}
	o.AddContext(cmd)
	o.AddOutput(cmd, "text", "text", "json", "yaml")
	o.Answers(cmd, "Difference", guestdiff.Difference{})
	return cmd
}

// compareNamedGuests compares A with B. Without B it compares A on two hosts, or with its last boot.
// If a side is rejected, it prints the causes and returns ErrRejected. It fails for more than two hosts, and if A has no record to compare it with.
func (o *diffRun) compareNamedGuests(ctx context.Context, args, hosts []string, latest bool) (guestdiff.Difference, error) {
	var none guestdiff.Difference
	// One --host is the host of both sides. Without --host, both sides have the same assumed host.
	switch len(hosts) {
	case 0:
		hosts = []string{"", ""}
	case 1:
		hosts = []string{hosts[0], hosts[0]}
	case 2:
	default:
		return none, errors.New("give --host once, or once for each side")
	}
	alone := len(args) == 1 && hosts[0] == hosts[1]
	if latest && !alone {
		return none, errors.New("--latest compares one object with its record: leave out the second object or host")
	}
	if err := o.ReadClusterSettings(ctx, args); err != nil {
		return none, err
	}
	if alone {
		return o.sinceBoot(ctx, args[0], hosts[0], latest)
	}
	before, err := o.OneGuest(ctx, args[0], nil)
	if err != nil {
		return none, err
	}
	after := before
	if len(args) == 2 {
		if after, err = o.OneGuest(ctx, args[1], &before); err != nil {
			return none, err
		}
	}
	return o.ReportDifference(guestdiff.Compare(ctx, &o.Bench, guestdiff.Side{Reviewed: before, Host: hosts[0]}, guestdiff.Side{Reviewed: after, Host: hosts[1]}))
}

// sinceBoot compares a VM or VMI with its running VMI, or with the record of its last boot if it does not run.
func (o *diffRun) sinceBoot(ctx context.Context, name, host string, latest bool) (guestdiff.Difference, error) {
	of, err := o.ReadGuests(ctx, name)
	if err != nil {
		return guestdiff.Difference{}, err
	}
	side := guestdiff.Side{Reviewed: of.VM, Host: host}
	switch {
	case latest:
		return o.ReportDifference(guestdiff.CompareLatest(ctx, &o.Bench, side))
	case of.VMI != nil && !of.VMI.Guest.Explicit.IsFinal():
		return o.ReportDifference(guestdiff.CompareRunning(ctx, &o.Bench, of, host))
	}
	return o.ReportDifference(guestdiff.CompareRecord(ctx, &o.Bench, side))
}

// printDifference prints a difference. It returns nil for a compatible change, and otherwise ErrNeedsRestart or ErrBreaks.
func (o *diffRun) printDifference(d guestdiff.Difference, domain bool) error {
	if o.Output != "text" {
		if err := o.Print(d); err != nil {
			return err
		}
	} else {
		WriteDifference(o.Out, d)
		if domain {
			fmt.Fprint(o.Out, cmdutil.PrintableLines(d.Domain))
		}
	}
	switch d.Verdict {
	case record.NeedsRestart:
		return cmdutil.ErrNeedsRestart
	case record.Breaks:
		return cmdutil.ErrBreaks
	}
	return nil
}

// colors are the colors of verdicts.
var colors = map[record.Verdict]cmdutil.Color{record.Compatible: cmdutil.Green, record.NeedsRestart: cmdutil.Yellow, record.Breaks: cmdutil.Red}

// WriteDifference writes a difference as text: what was compared if the user named only one object, the verdict, the changes of the hardware without those
// that follow from another one, and the diff of the explicit spec. It replaces control characters, because tenants write serial numbers and other texts.
func WriteDifference(out io.Writer, d guestdiff.Difference) {
	verdict := string(d.Verdict)
	if d.Compared != "" {
		fmt.Fprintf(out, "compared: %s\n", cmdutil.Printable(d.Compared))
		if d.Verdict == record.Compatible && len(d.Changes) == 0 {
			verdict = "the same"
		}
	}
	fmt.Fprintf(out, "%s\n", cmdutil.Paint(out, colors[d.Verdict], verdict))
	for _, change := range record.WithoutConsequences(d.Changes) {
		mark := ""
		if change.Verdict == record.Breaks {
			mark = "   " + cmdutil.Paint(out, cmdutil.Red, "<- breaks")
		}
		fmt.Fprintf(out, "  %s%s\n", cmdutil.Printable(change.Text), mark)
	}
	if d.Unknown != "" {
		fmt.Fprintf(out, "  %s\n", d.Unknown)
	}
	if d.Rollout != nil {
		for _, text := range d.Rollout.Warnings() {
			fmt.Fprintf(out, "  %s\n", text)
		}
	}
	fmt.Fprint(out, cmdutil.PrintableLines(d.Spec))
}
