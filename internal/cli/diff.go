package cli

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

// diffOptions is a run of 'diff'.
type diffOptions struct{ comparison }

// 'diff' compares what the guests see (abi.Compare over both frontends), and not the texts of two domains: those differ from host to host where
// a guest sees no difference. The diffs of specs and domains as texts are for people.

// diffCommand is 'diff'. Its exit status is the verdict, so that a pipeline can stop before a change that breaks hardware.
// Statuses 3 and 4 stand above 1 and 2, which are taken as in 'kubectl diff'.
func diffCommand(s *cmdutil.Session) *cobra.Command {
	o := &diffOptions{newComparison(s)}
	cmd := &cobra.Command{
		Use:   "diff A [B]",
		Short: "Judge what a change means for the hardware that a guest sees",
		Long: "Judge what a change from A to B means for the hardware that a guest sees: it is compatible, or needs a restart, or\n" +
			"breaks the guest's hardware. Where KubeVirt runs guests, what it changes in a guest that runs is compatible.\n" +
			"A and B are files with one VM or VMI, or objects of the cluster, such as vm/web. B is taken for the next version\n" +
			"of A: it keeps A's identity, pins and recorded addresses. With A alone, what runs is compared with the template of the\n" +
			"VM, and the record of the last boot where nothing runs; with --latest the record, and what 'kilnvm.io/hardware: latest'\n" +
			"would boot; with --host twice two hosts. The first line then says what was compared.\n\n" +
			"The exit status is 0 if the change is compatible, 3 if it needs a restart, 4 if it breaks the guest's hardware, and 1\n" +
			"if A or B is rejected.",
		Example: "  kubectl kiln diff vm/web new.yaml\n" +
			"  kubectl kiln diff vm/web\n" +
			"  kubectl kiln diff vm.yaml --host old-host.yaml --host new-host.yaml --domain",
		Args: cobra.RangeArgs(1, 2),
	}
	var hosts []string
	cmd.Flags().StringSliceVar(&hosts, "host", nil, "file with the HostCapabilities of a host; given twice, those of A and of B")
	o.AddProfiles(cmd)
	domain := cmd.Flags().Bool("domain", false, "show how the complete libvirt domain changes, backends included")
	latest := cmd.Flags().Bool("latest", false, "show what 'kilnvm.io/hardware: latest' would change")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		d, err := o.difference(cmd.Context(), args, hosts, *latest)
		if err != nil {
			return err
		}
		return o.printDifference(d, *domain)
	}
	o.AddContext(cmd)
	o.AddOutput(cmd, "text", "text", "json", "yaml")
	return cmd
}

// difference compares A with B. Without B it compares A on two hosts, or with what it has booted.
// It returns ErrRejected if a side is rejected, which is printed. More than two hosts, and a VM without B, a second host and a record, are faults.
func (o *diffOptions) difference(ctx context.Context, args, hosts []string, latest bool) (guestdiff.Difference, error) {
	var none guestdiff.Difference
	// One --host is that of both sides. None means the same assumed host for both.
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
	if err := o.readClusterSettings(ctx, args); err != nil {
		return none, err
	}
	if alone {
		return o.sinceBoot(ctx, args[0], hosts[0], latest)
	}
	before, err := o.oneGuest(ctx, args[0], nil)
	if err != nil {
		return none, err
	}
	after := before
	if len(args) == 2 {
		if after, err = o.oneGuest(ctx, args[1], &before); err != nil {
			return none, err
		}
	}
	return o.ReportDifference(guestdiff.Compare(ctx, &o.Bench, guestdiff.Side{Reviewed: before, Host: hosts[0]}, guestdiff.Side{Reviewed: after, Host: hosts[1]}))
}

// sinceBoot compares a VM or VMI with what it has booted: what runs of a VM, else its record.
func (o *diffOptions) sinceBoot(ctx context.Context, name, host string, latest bool) (guestdiff.Difference, error) {
	of, err := o.readGuests(ctx, name)
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

// printDifference prints a difference, and returns its verdict as an answer.
func (o *diffOptions) printDifference(d guestdiff.Difference, domain bool) error {
	if o.Output != "text" {
		if err := o.Print(d); err != nil {
			return err
		}
	} else {
		writeDifference(o.Out, d)
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

// writeDifference writes a difference as text: what was compared where the user named one object, the verdict, each change of the hardware without those
// that only follow from another one, and the diff of the explicit spec.
// 'repin' prints its difference by it too. Serial numbers and other texts of the VM are a tenant's.
func writeDifference(out io.Writer, d guestdiff.Difference) {
	verdict := string(d.Verdict)
	if d.Compared != "" {
		fmt.Fprintf(out, "compared: %s\n", cmdutil.Printable(d.Compared))
		if d.Verdict == record.Compatible && len(d.Changes) == 0 {
			verdict = "the same"
		}
	}
	fmt.Fprintf(out, "%s\n", verdict)
	for _, change := range record.WithoutConsequences(d.Changes) {
		mark := ""
		if change.Verdict == record.Breaks {
			mark = "   <- breaks"
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
