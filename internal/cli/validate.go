package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
)

func validateCommand(o *options) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "validate (-f FILE|DIR|- | -k DIR | vm/NAME ...)",
		Short: "Judge VMs and catalog objects as API server and webhook would",
		Long: "Judge VMs, VMIs, instancetypes, preferences, presets and host profiles as API server and webhook would: every cause\n" +
			"at once, with the line of the file.",
		Example: "  kubectl kiln validate -f vm.yaml --catalog sizes/\n" +
			"  kustomize build | kubectl kiln validate -f - -o json | jq 'select(.allowed | not)'",
		RunE: func(cmd *cobra.Command, args []string) error {
			guests, err := o.guests(cmd.Context(), args)
			if err != nil {
				return err
			}
			if len(guests) == 0 {
				return o.nothing("object of a kind that Kiln serves", args)
			}
			var outcome error
			for _, g := range guests {
				if g.fault != nil {
					outcome = worse(outcome, o.unanswered(g.fault))
					continue
				}
				told := o.printVerdict(g)
				if told != nil && !errors.Is(told, ErrRejected) {
					return told
				}
				outcome = worse(outcome, told)
			}
			return outcome
		},
	}
	o.addInputs(cmd)
	o.addOutput(cmd, "text", "text", "json", "yaml")
	return cmd
}

func (o *options) printVerdict(g guest) error {
	if o.documents && g.verdict.Allowed() {
		return o.print(g.judgement())
	}
	if !g.verdict.Allowed() {
		return o.refuse(g, "")
	}
	g.warn(o.ErrOut)
	_, err := fmt.Fprintf(o.Out, "%s is accepted\n", g.name())
	return err
}
