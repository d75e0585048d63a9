package cli

import (
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/kilnvm/kiln/internal/cli/cmdutil"
	"github.com/kilnvm/kiln/internal/workbench/policyaudit"
	"github.com/kilnvm/kiln/pkg/carrier"
	"github.com/spf13/cobra"
)

// policyWhyRun is a run of 'policy why'.
type policyWhyRun struct{ cmdutil.Inputs }

// policyWhyCommand returns 'policy why'.
func policyWhyCommand(s *cmdutil.Session) *cobra.Command {
	o := &policyWhyRun{cmdutil.NewInputs(s)}
	cmd := &cobra.Command{
		Use:   "why (-f FILE|DIR|- | -k DIR | vm/NAME ...)",
		Short: "Say which policies judge a VM, and what they say to an edit of it",
		Long: "Say which GuestPolicies judge a VM: to its creation as it is, to an edit that changes the guest that boots, and to another edit,\n" +
			"such as a start, a stop or a label. An edit that also changes what a policy reads may get another answer. VMIs are judged when\n" +
			"they are created, and templates of VMs, such as in a VirtualMachinePool, when they are created or changed.\n\n" +
			"The exit status is 0 if the policies could be asked, whatever they say, and 2 if not.",
		Example: "  kubectl kiln policy why vm/web\n" +
			"  kubectl kiln policy why vm/web --policy policies/ -o json",
		RunE: func(cmd *cobra.Command, args []string) error {
			in, err := o.Load(o.Files, args)
			if err != nil {
				return err
			}
			all, warnings, err := policyaudit.Explain(cmd.Context(), &o.Bench, in)
			o.Warn(warnings...)
			switch {
			case err != nil:
				return err
			case len(all) == 0:
				return o.NothingFound("VirtualMachine, VirtualMachineInstance or template of them", args)
			case len(all[0].Policies) == 0 && o.Bench.PoliciesForbidden:
				return errors.New("you may not list GuestPolicies: name files with --policy")
			}
			return o.List(func() error { return o.printWhy(all) })
		},
	}
	o.AddInputs(cmd)
	o.AddPolicies(cmd)
	cmd.Flags().StringArrayVar(&o.Bench.Carriers, "carrier", nil, carrier.FlagUsage)
	o.AddOutput(cmd, "table", "table", "json", "yaml")
	o.Answers(cmd, "PolicyWhy", policyaudit.Why{})
	return cmd
}

// printWhy prints a table for each object, and the messages of the policies below it. It replaces control characters, because policies contain the messages.
func (o *policyWhyRun) printWhy(all []policyaudit.Why) error {
	for _, why := range all {
		if o.Documents {
			if err := o.Print(why); err != nil {
				return err
			}
			continue
		}
		fmt.Fprintln(o.Out, cmdutil.Printable(fmt.Sprintf("%s %s/%s", why.Kind, why.Namespace, why.Name)))
		if len(why.Policies) == 0 {
			fmt.Fprintln(o.Out, "there is no GuestPolicy")
			continue
		}
		table := tabwriter.NewWriter(o.Out, 0, 0, 3, ' ', 0)
		fmt.Fprintln(table, "POLICY\tCREATE\tEDIT OF THE GUEST\tOTHER EDIT\tEXCEPTIONS\tMESSAGE")
		for _, p := range why.Policies {
			cells := []string{p.Policy, string(p.Create), string(p.EditGuest), string(p.EditRest), strings.Join(p.Exceptions, ", "), strings.Join(p.Messages, "; ")}
			for i := range cells {
				cells[i] = cmdutil.Printable(cells[i])
			}
			fmt.Fprintln(table, strings.Join(cells, "\t"))
		}
		if err := table.Flush(); err != nil {
			return err
		}
	}
	return nil
}
