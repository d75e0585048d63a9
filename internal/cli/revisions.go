package cli

import (
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/kilnvm/kiln/internal/cli/cmdutil"
	"github.com/kilnvm/kiln/internal/revision"
	"github.com/spf13/cobra"
)

// revisionsOptions is a run of 'revisions'.
type revisionsOptions struct{ cmdutil.Inputs }

// A revision is 'current' while its content is that of the object of its name, and 'outdated' when the object has changed: VMs keep
// revisions until their owner repins them, so that outdated ones are no fault. Package revision has the states.

// revisionsCommand is 'revisions'. It needs a cluster: files have no revisions.
// The exit status is 0 or 2: no state is a rejection, and a list without revisions is an answer. Objects that may not be read have the
// state 'unknown'. -n and -A are kubectl's.
func revisionsCommand(s *cmdutil.Session) *cobra.Command {
	o := &revisionsOptions{cmdutil.NewInputs(s)}
	cmd := &cobra.Command{
		Use:   "revisions",
		Short: "List the revisions of instancetypes and preferences, and who uses them",
		Long: "List the revisions of instancetypes and preferences that VMs are pinned to, and who uses them. An outdated revision\n" +
			"differs from the object as it is now: its VMs keep it until 'kubectl kiln repin'. Unused revisions are deleted after\n" +
			"a grace period.",
		Example: "  kubectl kiln revisions -n shop\n" +
			"  kubectl kiln revisions -A -o json | jq '.[] | select(.state == \"outdated\").virtualMachines'",
		Args: cobra.NoArgs,
	}
	all := cmd.Flags().BoolP("all-namespaces", "A", false, "list revisions of all namespaces")
	outdated := cmd.Flags().Bool("outdated", false, "list only revisions that differ from the object as it is now")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		namespace, _, err := o.Cluster.ToRawKubeConfigLoader().Namespace()
		if err != nil {
			return err
		}
		if *all { // an empty namespace lists all
			namespace = ""
		}
		reader, err := o.Client()
		if err != nil {
			return err
		}
		o.Bench.Quiet = true
		usages, warnings, err := o.Bench.Usages(cmd.Context(), reader, namespace)
		o.Warn(warnings...)
		if err != nil {
			return err
		}
		if *outdated {
			usages = slices.DeleteFunc(usages, func(u revision.Usage) bool { return u.State == revision.Current })
		}
		return o.printUsages(usages, namespace == "")
	}
	o.AddConfig(cmd)
	o.AddOutput(cmd, "text", "text", "json", "yaml")
	return cmd
}

// printUsages prints a table, with a column for the namespace when all are listed.
// kubectl get -A has the column NAMESPACE first too. A revision that is missing has the name that a tenant wrote into the pins of a VM. '?' stands
// for the object of a revision that is missing.
func (o *revisionsOptions) printUsages(usages []revision.Usage, namespaces bool) error {
	if o.Output != "text" {
		return o.Print(append([]revision.Usage{}, usages...))
	}
	table := tabwriter.NewWriter(o.Out, 0, 0, 3, ' ', 0)
	row := func(cells ...string) {
		if !namespaces {
			cells = cells[1:]
		}
		fmt.Fprintln(table, cmdutil.PrintableCells(cells...))
	}
	row("NAMESPACE", "REVISION", "OF", "STATE", "USED BY")
	for _, u := range usages {
		of := "?"
		if u.Kind != "" {
			of = strings.ToLower(u.Kind) + "/" + u.Name
		}
		state := string(u.State)
		if u.Lifecycle != "" {
			state += ", " + u.Lifecycle
		}
		row(u.Namespace, u.Revision, of, state, cmdutil.Users(u))
	}
	return table.Flush()
}
