package cli

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/kilnvm/kiln/internal/workbench"
	"github.com/kilnvm/kiln/pkg/record"
	"github.com/spf13/cobra"
)

// 'diff' compares what the guests see (abi.Compare over both frontends), and not the texts of two domains: those differ from host to host where
// a guest sees no difference. The diffs of specs and domains as texts are for people.

// diffCommand is 'diff'. Its exit status is the verdict, so that a pipeline can stop before a change that breaks hardware.
// Statuses 3 and 4 stand above 1 and 2, which are taken as in 'kubectl diff'.
func diffCommand(o *options) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "diff A [B]",
		Short: "Judge what a change means for the hardware that a guest sees",
		Long: "Judge what a change from A to B means for the hardware that a guest sees: it is compatible, or needs a restart, or\n" +
			"breaks the guest's hardware. Where KubeVirt runs guests, what it changes in a guest that runs is compatible.\n" +
			"A and B are files with one VM or VMI, or objects of the cluster, such as vm/web. B is taken for the next version\n" +
			"of A: it keeps A's identity, pins and recorded addresses. With A alone, --host twice compares two hosts; vm/NAME\n" +
			"without them shows what 'kilnvm.io/hardware: latest' would change.\n\n" +
			"The exit status is 0 if the change is compatible, 3 if it needs a restart, 4 if it breaks the guest's hardware, and 1\n" +
			"if A or B is rejected.",
		Example: "  kubectl kiln diff vm/web new.yaml\n" +
			"  kubectl kiln diff vm.yaml --host old-host.yaml --host new-host.yaml --domain",
		Args: cobra.RangeArgs(1, 2),
	}
	var hosts []string
	cmd.Flags().StringSliceVar(&hosts, "host", nil, "file with the HostCapabilities of a host; given twice, those of A and of B")
	o.addProfiles(cmd)
	domain := cmd.Flags().Bool("domain", false, "show how the complete libvirt domain changes, backends included")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		d, err := o.difference(cmd.Context(), args, hosts)
		if err != nil {
			return err
		}
		return o.printDifference(d, *domain)
	}
	o.addContext(cmd)
	o.addOutput(cmd, "text", "text", "json", "yaml")
	return cmd
}

// difference compares A with B. Without B it compares A on two hosts, or A with its hardware derived anew, as kilnvm.io/hardware: latest
// would at the next boot.
// It returns ErrRejected if a side is rejected, which is printed. More than two hosts, and a VM without B, a second host and a record, are faults.
func (o *options) difference(ctx context.Context, args, hosts []string) (workbench.Difference, error) {
	var none workbench.Difference
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
	if err := o.readClusterSettings(ctx, args); err != nil {
		return none, err
	}
	before, err := o.oneGuest(ctx, args[0], nil)
	if err != nil {
		return none, err
	}
	// Without B and on one host both sides are one object: only a new derivation can differ.
	after, afresh := before, hosts[0] == hosts[1]
	switch {
	case len(args) == 2:
		afresh = false
		after, err = o.oneGuest(ctx, args[1], &before)
	case afresh && before.Guest.Recorded == nil:
		err = fmt.Errorf("%s has no recorded hardware: give what to compare it with, or --host for two hosts", before.Name())
	}
	if err != nil {
		return none, err
	}
	return o.compare(ctx, workbench.Side{Reviewed: before, Host: hosts[0]}, workbench.Side{Reviewed: after, Host: hosts[1], Afresh: afresh})
}

// compare compares two sides. It prints the settings that it could not read, and why a side is refused.
func (o *options) compare(ctx context.Context, before, after workbench.Side) (workbench.Difference, error) {
	d, err := o.bench.Compare(ctx, before, after)
	o.note(d.Notes)
	if err != nil {
		err = o.refused(err)
	}
	return d, err
}

// printDifference prints a difference, and returns its verdict as an answer.
func (o *options) printDifference(d workbench.Difference, domain bool) error {
	if o.output != "text" {
		if err := o.print(d); err != nil {
			return err
		}
	} else {
		writeDifference(o.Out, d)
		if domain {
			fmt.Fprint(o.Out, printableLines(d.Domain))
		}
	}
	switch d.Verdict {
	case record.NeedsRestart:
		return ErrNeedsRestart
	case record.Breaks:
		return ErrBreaks
	}
	return nil
}

// writeDifference writes a difference as text: the verdict, each change of the hardware, and the diff of the explicit spec.
// 'repin' prints its difference by it too. Serial numbers and other texts of the VM are a tenant's.
func writeDifference(out io.Writer, d workbench.Difference) {
	fmt.Fprintf(out, "%s\n", d.Verdict)
	for _, change := range d.Changes {
		mark := ""
		if change.Verdict == record.Breaks {
			mark = "   <- breaks"
		}
		fmt.Fprintf(out, "  %s%s\n", printable(change.Text), mark)
	}
	if d.Rollout != nil {
		for _, text := range d.Rollout.Warnings() {
			fmt.Fprintf(out, "  %s\n", text)
		}
	}
	fmt.Fprint(out, printableLines(d.Spec))
}
