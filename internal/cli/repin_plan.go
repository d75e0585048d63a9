package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/kilnvm/kiln/internal/cli/cmdutil"
	"github.com/kilnvm/kiln/internal/workbench/rehearsal"
	"github.com/kilnvm/kiln/internal/workbench/repin"
	"github.com/spf13/cobra"
)

// planFlags are the flags of 'repin' that are about a plan.
type planFlags struct {
	file string
	only []string
	most int
	wait time.Duration
	stop bool
}

// addPlanFlags adds the flags of a plan. The flags that choose pins must be there already. They are refused with --plan: a plan has all pins of a VM.
func addPlanFlags(cmd *cobra.Command) *planFlags {
	p := &planFlags{}
	flags := cmd.Flags()
	flags.StringVar(&p.file, "plan", "", "repin the VMs of this plan, which 'kubectl kiln rehearse --plan' has written")
	flags.StringSliceVar(&p.only, "only", []string{"same", "live"}, "with --plan: the verdicts of the VMs that are repinned: same, live, restart, breaks")
	flags.IntVar(&p.most, "max", 0, "with --plan: repin at most this number of VMs; default: all")
	flags.DurationVar(&p.wait, "wait", 0, "with --plan: wait this long for the status of each VM to name its new pins, if KubeVirt runs it, such as 10m")
	flags.BoolVar(&p.stop, "stop-on-difference", false, "with --plan: end at the first VM or guest that is not what was rehearsed")
	for _, other := range []string{"instancetype", "preference", "presets", "profiles", "configuration", "cpu"} {
		cmd.MarkFlagsMutuallyExclusive("plan", other)
	}
	return p
}

// check refuses the flags of a plan without a plan.
func (p *planFlags) check(cmd *cobra.Command) error {
	for _, name := range []string{"only", "max", "wait", "stop-on-difference"} {
		if p.file == "" && cmd.Flags().Changed(name) {
			return fmt.Errorf("--%s has an effect only with --plan", name)
		}
	}
	return nil
}

// pollInterval is the time between two reads of a VM that is waited for.
const pollInterval = time.Second

// followPlan repins the VMs of a plan.
func (o *repinRun) followPlan(ctx context.Context, flags *planFlags, dryRun bool) error {
	only, err := rehearsal.ParseVerdicts(flags.only)
	if err != nil {
		return fmt.Errorf("--only: %w", err)
	}
	if flags.most < 0 || flags.wait < 0 {
		return errors.New("--max and --wait must not be negative")
	}
	plan, err := rehearsal.ReadPlan(flags.file)
	if err != nil {
		return fmt.Errorf("--plan: %w", err)
	}
	cluster, err := o.WarningClient()
	if err != nil {
		return err
	}
	o.Bench.IgnoreProfiles()
	run := &repin.PlanRun{Cluster: cluster, Bench: &o.Bench, Only: only, Max: flags.most, Wait: flags.wait, StopOnDifference: flags.stop, DryRun: dryRun,
		Poll: pollInterval}
	if !o.Documents {
		run.Report = func(one repin.Outcome) { writeOutcome(o.Out, one) }
	}
	done, err := run.Run(ctx, plan)
	if o.Documents {
		err = errors.Join(o.Print(done), err)
	} else {
		writePlanned(o.Out, done)
	}
	switch {
	case err != nil:
		return fmt.Errorf("%w; the same command continues", err)
	case done.Counts[repin.ActionDiffers] > 0:
		return cmdutil.ErrBreaks
	case done.Counts[repin.ActionRefused] > 0:
		return cmdutil.ErrRejected
	}
	return nil
}

// writeOutcome writes a line about a VM, except about one that was done before.
func writeOutcome(out io.Writer, one repin.Outcome) {
	if one.Action == repin.ActionAlready {
		return
	}
	line := fmt.Sprintf("%s/%s (%s): %s", one.Namespace, one.Name, one.Verdict, one.Action)
	if one.Reason != "" {
		line += ": " + one.Reason
	}
	fmt.Fprintln(out, cmdutil.Printable(line))
}

// planActions are the actions in the order of the counts.
var planActions = []string{repin.ActionRepinned, repin.ActionAlready, repin.ActionSkipped, repin.ActionRefused, repin.ActionDiffers}

// writePlanned writes the counts of a run, and what can be done next.
func writePlanned(out io.Writer, done repin.Planned) {
	var counts []string
	for _, action := range planActions {
		if n := done.Counts[action]; n > 0 || action == repin.ActionRepinned {
			counts = append(counts, fmt.Sprintf("%d %s", n, action))
		}
	}
	text := strings.Join(counts, ", ")
	if done.DryRun {
		text += " (dry run)"
	}
	fmt.Fprintf(out, "%s; %d left\n", text, done.Left)
	if done.Halted {
		fmt.Fprintln(out, "halted at a difference. VMs that were repinned keep their new pins: undoing is a second change. Name the earlier revision in "+
			"spec.instancetype.revisionName or spec.preference.revisionName, or install the earlier objects, and rehearse that first")
	}
	if i := slices.IndexFunc(done.Outcomes, func(o repin.Outcome) bool { return o.Action == repin.ActionSkipped }); i >= 0 {
		fmt.Fprintln(out, "skipped VMs need a new rehearsal")
	}
}
