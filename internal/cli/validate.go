package cli

import (
	"errors"
	"fmt"

	"github.com/kilnvm/kiln/internal/cli/cmdutil"
	"github.com/kilnvm/kiln/internal/workbench"
	"github.com/spf13/cobra"
)

// validateRun is a run of 'validate'.
type validateRun struct{ cmdutil.Inputs }

// Only 'validate' accepts a VM whose instancetype or preference does not exist, as the webhook does. The other commands
// need the explicit VMI, and reject such a VM.

// validateCommand returns 'validate'. A test compares its verdicts, causes and warnings with the webhook's.
// The exit status is 0 if all objects are accepted, 1 if one is rejected, and 2 if one has no verdict, because a file cannot be read, or if there are no
// objects. All objects are judged, even if others are rejected.
func validateCommand(s *cmdutil.Session) *cobra.Command {
	o := &validateRun{cmdutil.NewInputs(s)}
	cmd := &cobra.Command{
		Use:   "validate (-f FILE|DIR|- | -k DIR | vm/NAME ...)",
		Short: "Validate VMs and objects of the catalog as the API server and the webhook do",
		Long: "Validate VMs, VMIs, instancetypes, preferences, presets, profiles and GuestPolicies as the API server and the webhook do. All\n" +
			"causes are listed, each with the line of the file. If a policy depends on the user of the request, name the user with --as.",
		Example: "  kubectl kiln validate -f vm.yaml --catalog catalog/ --policy policies/\n" +
			"  kustomize build | kubectl kiln validate -f - -o json | jq 'select(.allowed | not)'",
		RunE: func(cmd *cobra.Command, args []string) error {
			all, err := o.ReviewArguments(cmd.Context(), args)
			if err != nil {
				return err
			}
			if len(all) == 0 {
				return o.NothingFound("object of a kind that Kiln serves", args)
			}
			var outcome error
			for _, r := range all {
				if r.Fault != nil {
					outcome = cmdutil.Worse(outcome, o.PrintUnanswered(r.Fault))
					continue
				}
				// After a rejection the run goes on with the next object. It ends if output cannot be written.
				rejected := o.printVerdict(r)
				if rejected != nil && !errors.Is(rejected, cmdutil.ErrRejected) {
					return rejected
				}
				outcome = cmdutil.Worse(outcome, rejected)
			}
			return outcome
		},
	}
	o.AddInputs(cmd)
	o.AddPolicies(cmd)
	o.AddOutput(cmd, "text", "text", "json", "yaml")
	return cmd
}

// printVerdict prints the verdict on one object: a document in JSON and YAML, and otherwise its warnings and causes.
// It returns ErrRejected for a rejection, or the error of the output.
func (o *validateRun) printVerdict(r workbench.Reviewed) error {
	if !o.Documents {
		for _, inferred := range r.Inferred {
			fmt.Fprintln(o.ErrOut, cmdutil.Printable(fmt.Sprintf("inferred: %s: %s: %s", r.Name(), inferred.Path, inferred)))
		}
	}
	switch {
	case !r.Verdict.Allowed():
		return o.PrintRejectedObject(r, "")
	case o.Documents:
		return o.Print(r.Judgement())
	}
	o.WarnOf(r)
	_, err := fmt.Fprintf(o.Out, "%s is accepted\n", cmdutil.Printable(r.Name()))
	return err
}
