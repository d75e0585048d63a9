package cli

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"
)

// judgement is what 'validate -o json' prints for each object.
type judgement struct {
	Object   string   `json:"object"`
	Allowed  bool     `json:"allowed"`
	Causes   []cause  `json:"causes"`
	Warnings []string `json:"warnings"`
}

type cause struct {
	Type    string `json:"type"`
	Field   string `json:"field"`
	Message string `json:"message"`
	// File and Line are where the field stands, or the nearest parent of one that is missing.
	File string `json:"file,omitempty"`
	Line int    `json:"line,omitempty"`
}

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
				switch {
				case g.fault != nil:
					outcome = worse(outcome, o.unanswered(g.fault))
					continue
				case !g.verdict.Allowed():
					outcome = worse(outcome, ErrRejected)
				}
				if err := o.printVerdict(g); err != nil {
					return err
				}
			}
			return outcome
		},
	}
	o.addInputs(cmd)
	o.addOutput(cmd, "text", "text", "json", "yaml")
	return cmd
}

func (o *options) printVerdict(g guest) error {
	if o.output != "text" {
		return o.print(g.judgement())
	}
	g.warn(o.ErrOut)
	if g.verdict.Allowed() {
		_, err := fmt.Fprintf(o.Out, "%s is accepted\n", g.name())
		return err
	}
	g.reject(o.ErrOut)
	return nil
}

func (g guest) judgement() judgement {
	j := judgement{Object: g.name(), Allowed: g.verdict.Allowed(), Causes: []cause{}, Warnings: append([]string{}, g.verdict.Warnings...)}
	for _, e := range g.verdict.Errors {
		c := cause{Type: string(e.Type), Field: e.Field, Message: e.ErrorBody()}
		if at, found := g.find(e.Field); found {
			c.File, c.Line = at.file, at.number
		}
		j.Causes = append(j.Causes, c)
	}
	return j
}

func (g guest) warn(out io.Writer) {
	for _, warning := range g.verdict.Warnings {
		fmt.Fprintf(out, "Warning: %s: %s\n", g.name(), warning)
	}
}

// reject prints every cause of a rejection, and the line where it stands.
func (g guest) reject(out io.Writer) {
	fmt.Fprintf(out, "%s is rejected:\n", g.name())
	for _, err := range g.verdict.Errors {
		fmt.Fprintf(out, "  %s\n", err.Error())
		if at, found := g.find(err.Field); found {
			fmt.Fprintf(out, "    %s\n", at)
		}
	}
}
