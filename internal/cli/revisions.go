package cli

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/kilnvm/kiln/internal/cli/cmdutil"
	"github.com/kilnvm/kiln/internal/cli/cmdutil/table"
	"github.com/kilnvm/kiln/internal/revision"
	"github.com/spf13/cobra"
)

// revisionsRun is a run of 'revisions'.
type revisionsRun struct{ cmdutil.Inputs }

// A revision is 'current' if the object of its name has the same content, and 'outdated' if the object has changed. Outdated revisions are normal, because
// VMs keep their revisions until their owner repins them. Package revision has the states.

// revisionsCommand returns 'revisions'. It needs a cluster, because files have no revisions.
// The exit status is 0, or 2 for a fault: neither an outdated revision nor an empty list is a rejection. The revision of an object that the user may not read
// has the state 'unknown'.
func revisionsCommand(s *cmdutil.Session) *cobra.Command {
	o := &revisionsRun{cmdutil.NewInputs(s)}
	cmd := &cobra.Command{
		Use:   "revisions",
		Short: "List the revisions of instancetypes and preferences, and who uses them",
		Long: "List the revisions of instancetypes and preferences that VMs are pinned to, and who uses them. An outdated revision\n" +
			"differs from the current object: its VMs keep it until 'kubectl kiln repin'. Unused revisions are deleted after\n" +
			"a grace period.",
		Example: "  kubectl kiln revisions -n shop\n" +
			"  kubectl kiln revisions -A -o json | jq '.items[] | select(.state == \"outdated\").virtualMachines'",
		Args: cobra.NoArgs,
	}
	all := cmd.Flags().BoolP("all-namespaces", "A", false, "list revisions of all namespaces")
	outdated := cmd.Flags().Bool("outdated", false, "list only revisions that differ from the current object")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		namespace, err := o.Cluster.Namespace()
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
	o.AddOutput(cmd, "table", "table", "wide", "name", "json", "yaml")
	o.Answers(cmd, "RevisionList", []revision.Usage{})
	return cmd
}

// printUsages prints a table, with a column for the namespace if all namespaces are listed. With -o wide it names all users of a revision.
// If a revision does not exist, its object is '?', and its name is a text that a tenant may have written into the pins of a VM.
func (o *revisionsRun) printUsages(usages []revision.Usage, namespaces bool) error {
	var names []string
	var rows [][]string
	for _, u := range usages {
		of := "?"
		if u.Kind != "" {
			of = strings.ToLower(u.Kind) + "/" + u.Name
		}
		state := string(u.State)
		if u.Lifecycle != "" {
			state += ", " + u.Lifecycle
		}
		users := cmdutil.UserNames(u, cmdutil.Shown)
		if o.Output == "wide" {
			users = cmdutil.UserNames(u, math.MaxInt)
		}
		names = append(names, "controllerrevision.apps/"+u.Revision)
		rows = append(rows, []string{u.Namespace, u.Revision, of, state, users, cmp.Or(u.Reason, "-")})
	}
	switch o.Output {
	case "name":
		return o.PrintNames(names)
	case "json", "yaml":
		return o.Print(usages)
	}
	columns := append(table.Columns("NAMESPACE", "REVISION", "OF", "STATE", "USED BY"), table.WideColumns("REASON")...)
	if !namespaces {
		columns = columns[1:]
		for i := range rows {
			rows[i] = rows[i][1:]
		}
	}
	if len(rows) == 0 {
		fmt.Fprintln(o.ErrOut, "no revision to list")
	}
	return table.Print(&o.Printer, columns, rows)
}
