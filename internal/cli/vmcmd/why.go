package vmcmd

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/kilnvm/kiln/internal/cli/cmdutil"
	"github.com/kilnvm/kiln/internal/workbench/startcheck"
	"github.com/kilnvm/kiln/internal/workbench/startcheck/objectread"
	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/types"
)

// whyRun is a run of 'why'.
type whyRun struct{ vmAccess }

// WhyCommand returns 'why'.
func WhyCommand(s *cmdutil.Session) *cobra.Command {
	o := &whyRun{vmAccess{cmdutil.NewPrinter(s)}}
	cmd := &cobra.Command{
		Use:   "why (NAME | vm/NAME | vmi/NAME)",
		Short: "Say why the guest of a VM does not run",
		Long: "Say why the guest of a VM does not run: the steps from the VM to its guest, the first step that is not done, its cause, a remedy, and\n" +
			"who can follow it. KubeVirt or Kiln may run the guests. Nothing is written. A step whose objects you may not read is Unknown.\n\n" +
			"The exit status is 0 if the guest runs or no guest is requested, 1 if a guest is requested and does not run, and 2 if the VM\n" +
			"cannot be read.",
		Example: "  kubectl kiln why web -n shop\n" +
			"  kubectl kiln why vm/web -o json",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			answer, err := o.explainStart(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if err := o.printAnswer(answer); err != nil {
				return err
			}
			if !answer.AsRequested {
				return cmdutil.ErrNotRunning
			}
			return nil
		},
	}
	o.AddOutput(cmd, "table", "table", "json", "yaml")
	o.Answers(cmd, "Why", startcheck.Answer{})
	return cmd
}

// explainStart reads the objects of a VM, and finds where its way to a guest ends.
func (o *whyRun) explainStart(ctx context.Context, arg string) (startcheck.Answer, error) {
	name, namespace, err := o.parseMachine(arg)
	if err != nil {
		return startcheck.Answer{}, err
	}
	cluster, err := o.Client()
	if err != nil {
		return startcheck.Answer{}, err
	}
	objects, err := objectread.ReadObjects(ctx, cluster, types.NamespacedName{Namespace: namespace, Name: name}, whichOf(arg))
	if err != nil {
		return startcheck.Answer{}, err
	}
	return startcheck.CheckStart(objects), nil
}

// whichOf returns the kind that an argument names.
func whichOf(arg string) objectread.Which {
	kind, _, slash := strings.Cut(strings.ToLower(arg), "/")
	switch {
	case !slash:
		return objectread.Either
	case strings.HasPrefix(kind, "vmi") || strings.HasPrefix(kind, "virtualmachineinstance"):
		return objectread.VMI
	}
	return objectread.VM
}

// shownStates are the states as the table prints them.
var shownStates = map[startcheck.State]string{startcheck.Done: "done", startcheck.Waiting: "waiting", startcheck.Failed: "failed",
	startcheck.NotRequested: "not requested", startcheck.NotReached: "not reached", startcheck.Unknown: "unknown"}

// printAnswer prints an answer. It replaces control characters, because objects of tenants have the details.
func (o *whyRun) printAnswer(answer startcheck.Answer) error {
	if o.Documents {
		return o.Print(answer)
	}
	fmt.Fprintln(o.Out, cmdutil.Printable(answer.Object))
	table := tabwriter.NewWriter(o.Out, 0, 0, 3, ' ', 0)
	for _, step := range answer.Steps {
		detail := cmp.Or(step.Detail, step.Object)
		if step.Detail != "" && step.Object != "" && (step.State == startcheck.Failed || step.State == startcheck.Waiting) {
			detail = step.Object + ": " + step.Detail
		}
		fmt.Fprintln(table, strings.TrimRight("  "+cmdutil.PrintableCells(step.Step, shownStates[step.State], detail), "\t"))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	color := cmdutil.Red
	if answer.AsRequested {
		color = cmdutil.Green
	}
	fmt.Fprintln(o.Out, cmdutil.Paint(o.Out, color, cmdutil.Printable(answer.Cause)))
	if answer.Remedy != "" {
		fmt.Fprintln(o.Out, cmdutil.Printable("Remedy: "+answer.Remedy))
	}
	if answer.By != "" {
		fmt.Fprintln(o.Out, "By: "+string(answer.By)+".")
	}
	for _, note := range answer.Notes {
		fmt.Fprintln(o.Out, cmdutil.Printable("Note: "+note))
	}
	return nil
}
