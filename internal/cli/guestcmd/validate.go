package guestcmd

import (
	"errors"
	"fmt"

	"github.com/kilnvm/kiln/internal/cli/cmdutil"
	"github.com/kilnvm/kiln/internal/workbench"
	"github.com/kilnvm/kiln/pkg/carrier"
	"github.com/spf13/cobra"
)

// validateRun is a run of 'validate'.
type validateRun struct{ cmdutil.Inputs }

// Only 'validate' accepts a VM whose instancetype or preference does not exist, as the webhook does. The other commands
// need the explicit VMI, and reject such a VM.

// ValidateCommand returns 'validate'. A test compares its verdicts, causes and warnings with the webhook's.
// The exit status is 0 if all objects are accepted, 1 if one is rejected, and 2 if one has no verdict, because a file cannot be read, or if there are no
// objects. All objects are judged, even if others are rejected.
func ValidateCommand(s *cmdutil.Session) *cobra.Command {
	o := &validateRun{cmdutil.NewInputs(s)}
	cmd := &cobra.Command{
		Use:   "validate (-f FILE|DIR|- | -k DIR | vm/NAME ...)",
		Short: "Validate VMs and objects of the catalog as the API server and the webhook do",
		Long: "Validate VMs, VMIs, instancetypes, preferences, presets, profiles and GuestPolicies as the API server and the webhook do. All\n" +
			"causes are listed, each with the line of the file: mistakes of the schema, then rules. Rules and GuestPolicies that need a\n" +
			"value that the schema refuses are evaluated when the value is corrected. If a policy depends on the user of the request,\n" +
			"name the user with --as.",
		Example: "  kubectl kiln validate -f vm.yaml --catalog catalog/ --policy policies/\n" +
			"  kustomize build | kubectl kiln validate -f - -o json | jq '.items[] | select(.allowed | not)'",
		RunE: func(cmd *cobra.Command, args []string) error {
			all, err := o.ReviewArguments(cmd.Context(), args)
			if err != nil {
				return err
			}
			if len(all) == 0 {
				return o.NothingFound("object of a kind that Kiln serves", args)
			}
			return o.List(func() error { return o.printVerdicts(all) })
		},
	}
	o.AddInputs(cmd)
	o.AddPolicies(cmd)
	cmd.Flags().StringArrayVar(&o.Bench.Carriers, "carrier", nil, carrier.FlagUsage)
	o.AddOutput(cmd, "text", "text", "json", "yaml")
	o.Answers(cmd, "Judgement", workbench.Judgement{})
	return cmd
}

// printVerdicts prints the verdict on each object. If the objects are of several files, it adds the files and a line with the counts.
func (o *validateRun) printVerdicts(all []workbench.Reviewed) (outcome error) {
	files := map[string]bool{}
	for _, r := range all {
		files[r.File()] = true
	}
	o.NameFiles = len(files) > 1
	var accepted, rejected, unanswered int
	for _, r := range all {
		if r.Fault != nil {
			outcome = cmdutil.Worse(outcome, o.PrintUnanswered(r.Fault))
			unanswered++
			continue
		}
		// After a rejection the run goes on with the next object. It ends if output cannot be written.
		refusal := o.printVerdict(r)
		switch {
		case refusal == nil:
			accepted++
		case errors.Is(refusal, cmdutil.ErrRejected):
			rejected++
		default:
			return refusal
		}
		outcome = cmdutil.Worse(outcome, refusal)
	}
	if !o.NameFiles || o.Documents {
		return outcome
	}
	counts := fmt.Sprintf("%d accepted, %d rejected", accepted, rejected)
	if unanswered > 0 {
		counts += fmt.Sprintf(", %d without a verdict", unanswered)
	}
	if _, err := fmt.Fprintf(o.Out, "%s in %s\n", counts, cmdutil.Counted(len(files), "file")); err != nil {
		return err
	}
	return outcome
}

// printVerdict prints the verdict on one object: a document in JSON and YAML, and otherwise its warnings and causes.
// It returns ErrRejected for a rejection, or the error of the output.
func (o *validateRun) printVerdict(r workbench.Reviewed) error {
	if !o.Documents {
		for _, inferred := range r.Inferred {
			fmt.Fprintln(o.ErrOut, cmdutil.Printable(fmt.Sprintf("inferred: %s: %s: %s", r.Name(), inferred.Path, inferred)))
		}
		for _, policy := range r.Unselected {
			fmt.Fprintln(o.ErrOut, cmdutil.Printable(fmt.Sprintf("GuestPolicy '%s' does not select %s", policy, r.Name())))
		}
	}
	switch {
	case !r.Verdict.Allowed():
		return o.PrintRejectedObject(r, "")
	case o.Documents:
		return o.Print(r.Judgement())
	}
	o.WarnOf(r)
	_, err := fmt.Fprintf(o.Out, "%s is %s%s\n", cmdutil.Printable(r.Name()), cmdutil.Paint(o.Out, cmdutil.Green, "accepted"), o.InFile(r))
	return err
}
