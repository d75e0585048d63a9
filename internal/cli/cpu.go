package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/kilnvm/kiln/internal/cli/cmdutil"
	"github.com/kilnvm/kiln/internal/cli/cmdutil/table"
	"github.com/kilnvm/kiln/internal/nodecpu/fleet"
	"github.com/kilnvm/kiln/internal/workbench/cpucheck"
	"github.com/kilnvm/kiln/pkg/record"
	"github.com/spf13/cobra"
)

// cpuCheckRun is a run of 'cpu check'.
type cpuCheckRun struct{ cmdutil.Inputs }

// cpuCommand returns 'cpu', the commands about the recorded CPUs of guests.
func cpuCommand(s *cmdutil.Session) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cpu",
		Short: "Say whether guests can start again with their recorded CPU",
		Long: "Say whether guests can start again with their recorded CPU. The first boot of a guest records its CPU, and later boots need a\n" +
			"node that offers it.",
		Example: "  kubectl kiln cpu check -A",
	}
	cmd.AddCommand(cpuCheckCommand(s))
	cmdutil.RefuseUnknown(cmd)
	return cmd
}

// cpuCheckCommand returns 'cpu check'. It only reads. The exit status is 1 if a guest can start nowhere, so that a job can stop before nodes are rebooted.
func cpuCheckCommand(s *cmdutil.Session) *cobra.Command {
	o := &cpuCheckRun{cmdutil.NewInputs(s)}
	cmd := &cobra.Command{
		Use:   "check [-A | -f FILE|DIR|-]",
		Short: "List guests whose recorded CPU nodes do not offer",
		Long: "List the guests whose recorded CPU a node does not offer, with what is missing: in the namespace, with -A in the cluster, with\n" +
			"-f in a dump with VMs, GuestHardware and nodes. A kernel, a microcode or an image may take a feature away; a guest that runs\n" +
			"notices it at its next start. Only nodes count that the guest may start on. Features against flaws of CPUs that all of them\n" +
			"offer, and that the recorded CPU lacks, are listed too.\n\n" +
			"The exit status is 0 if each guest can start somewhere, 1 if not, and 2 if nodes or guests cannot be read.",
		Example: "  kubectl kiln cpu check -A\n" +
			"  kubectl kiln cpu check -n shop -o name | xargs -r kubectl kiln repin -n shop --cpu --dry-run",
		Args: cobra.NoArgs,
	}
	flags := cmd.Flags()
	all := flags.BoolP("all-namespaces", "A", false, "check the guests of all namespaces")
	flags.StringSliceVarP(&o.Files.Names, "filename", "f", nil, "file, directory or - with a dump of a cluster, instead of the cluster")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		o.Bench.Quiet = true
		check, err := o.makeCheck(cmd.Context(), *all)
		o.Warn(check.Warnings...)
		if err != nil {
			return err
		}
		return o.printCheck(check)
	}
	o.AddConfig(cmd)
	o.AddOutput(cmd, "table", "table", "wide", "name", "json", "yaml")
	o.Answers(cmd, "CPUCheck", cpucheck.Check{})
	return cmd
}

// makeCheck checks the dump if the user named one, and otherwise the cluster.
func (o *cpuCheckRun) makeCheck(ctx context.Context, everywhere bool) (cpucheck.Check, error) {
	if o.Files.Named() {
		dump, err := o.Files.ReadDump()
		if err != nil {
			return cpucheck.Check{}, err
		}
		return cpucheck.OfDump(ctx, &o.Bench, dump)
	}
	cluster, namespace, err := o.ScopedClient(everywhere)
	if err != nil {
		return cpucheck.Check{}, err
	}
	return cpucheck.OfCluster(ctx, &o.Bench, cluster, namespace)
}

// printCheck prints a row for each guest with a finding, and the counts on standard error. -o name prints the guests that can start nowhere. It returns
// ErrUnanswered if a guest could not be judged, and otherwise ErrRejected if a guest can start nowhere.
func (o *cpuCheckRun) printCheck(c cpucheck.Check) (outcome error) {
	nowhere := countGuests(c, func(g cpucheck.Guest) bool { return g.Offered == fleet.Nowhere })
	if nowhere > 0 {
		outcome = cmdutil.ErrRejected
	}
	if len(c.Unjudged) > 0 {
		outcome = cmdutil.ErrUnanswered
	}
	if o.Documents {
		return errors.Join(o.Print(c), outcome)
	}
	if o.Output == "name" {
		var names []string
		for _, g := range c.Guests[:nowhere] { // they are first
			names = append(names, cmdutil.ResourceName(g.Kind, g.Name))
		}
		return errors.Join(o.PrintNames(names), outcome)
	}
	var rows [][]string
	for _, g := range c.Guests {
		if text := findingOf(g); text != "" {
			var lacking []string
			for _, l := range g.Lacking {
				lacking = append(lacking, strings.Join(l.Nodes, ", ")+": "+l.Missing)
			}
			rows = append(rows, []string{g.Namespace, shortKind(g.Kind) + "/" + g.Name, g.Model, string(g.Offered),
				fmt.Sprintf("%d/%d", len(g.Offering), len(g.Offering)+countNodes(g)), text, orDash(strings.Join(lacking, "; "))})
		}
	}
	columns := append(table.Columns("NAMESPACE", "NAME", "CPU", "OFFERED", "NODES", "FINDING"), table.WideColumns("LACKING")...)
	if err := table.Print(&o.Printer, columns, rows); err != nil {
		return err
	}
	o.printCheckCounts(c, nowhere)
	return outcome
}

// findingOf returns what is to be said about a guest; nothing if all is well.
func findingOf(g cpucheck.Guest) string {
	var texts []string
	if g.Text != "" {
		texts = append(texts, g.Text)
	}
	if len(g.Mitigations) > 0 {
		texts = append(texts, "its nodes offer these features against flaws of CPUs, and it lacks them: "+record.ListFeatures(g.Mitigations))
	}
	return strings.Join(texts, "; ")
}

// printCheckCounts prints on standard error what was judged.
func (o *cpuCheckRun) printCheckCounts(c cpucheck.Check, nowhere int) {
	say := func(format string, args ...any) {
		fmt.Fprintln(o.ErrOut, cmdutil.Printable(fmt.Sprintf(format, args...)))
	}
	for _, u := range c.Unjudged {
		say("error: %s: %s", u.Name, u.Reason)
	}
	if n := len(c.SilentNodes); n > 0 {
		say("%s no CPUs, so no guest is judged by them: %s", countText(n, "node reports", "nodes report"), listNames(c.SilentNodes))
	}
	if n := countGuests(c, func(g cpucheck.Guest) bool { return g.FirstSeen }); n > 0 {
		say("%s had booted before the CPU was recorded, perhaps with another one", countText(n, "guest", "guests"))
	}
	if n := countGuests(c, func(g cpucheck.Guest) bool { return g.Requested == "host-model" && !g.Verified }); n > 0 {
		say("%s not seen to run yet", countText(n, "CPU of host-model was", "CPUs of host-model were"))
	}
	if c.Unrecorded > 0 {
		say("%s the CPU of the next boot", countText(c.Unrecorded, "guest records", "guests record"))
	}
	say("%s on %s: %d can start nowhere, %d only on some nodes, %d without features against flaws of CPUs",
		cmdutil.Counted(len(c.Guests), "recorded CPU"), cmdutil.Counted(c.Nodes, "node"), nowhere,
		countGuests(c, func(g cpucheck.Guest) bool { return g.Offered == fleet.Somewhere }),
		countGuests(c, func(g cpucheck.Guest) bool { return len(g.Mitigations) > 0 }))
}

// listNames returns the first names of a list, and the number of the others.
func listNames(names []string) string {
	if more := len(names) - cmdutil.Shown; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:cmdutil.Shown], ", "), more)
	}
	return strings.Join(names, ", ")
}

// countGuests returns the number of guests for which a function is true.
func countGuests(c cpucheck.Check, is func(cpucheck.Guest) bool) int {
	return len(slices.DeleteFunc(slices.Clone(c.Guests), func(g cpucheck.Guest) bool { return !is(g) }))
}

// countNodes returns the number of nodes that lack something.
func countNodes(g cpucheck.Guest) (n int) {
	for _, l := range g.Lacking {
		n += len(l.Nodes)
	}
	return n
}
