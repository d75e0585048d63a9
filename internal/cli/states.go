package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/kilnvm/kiln/internal/cli/cmdutil"
	"github.com/kilnvm/kiln/internal/cli/cmdutil/table"
	"github.com/kilnvm/kiln/internal/workbench/guestdiff"
	"github.com/kilnvm/kiln/pkg/record"
	"github.com/spf13/cobra"
)

// statesRun is a run of 'states'.
type statesRun struct{ cmdutil.Comparison }

// 'states' shows how a VM, its hardware record, its VMI and its guest differ. It needs a cluster, because a file has only one state.

// statesCommand returns 'states'.
// The exit status is 1 if the VM or its VMI is rejected, and 2 if one of them cannot be read. It does not depend on differences.
func statesCommand(s *cmdutil.Session) *cobra.Command {
	o := &statesRun{cmdutil.NewComparison(s)}
	cmd := &cobra.Command{
		Use:   "states (vm/NAME | vmi/NAME)",
		Short: "Show the states of a VM's configuration, from its template to what runs",
		Long: "Show the states of a VM's configuration: 1 what it would boot now (template), 2 the hardware record, 3 its VMI, 4 what\n" +
			"libvirt runs now (running), 5 its snapshots. Each row has the digest of the hardware that the guest sees, its cause and\n" +
			"time. Below the table are the changes from the older to the newer of two states, and the changes of the record that a\n" +
			"restore of a snapshot would make. --state prints the configuration of one state.",
		Example: "  kubectl kiln states vm/web -n shop\n" +
			"  kubectl kiln states vm/web --state 3 -o xml",
		Args: cobra.ExactArgs(1),
	}
	number := cmd.Flags().Int("state", 0, "print the configuration of this state, from 1 to 4, instead of the table")
	cmdutil.CompleteValues(cmd, "state", "1", "2", "3", "4")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		format, chosen := o.Output, cmd.Flags().Changed("state")
		switch {
		case chosen && (*number < guestdiff.StateTemplate || *number > guestdiff.StateRunning):
			return fmt.Errorf("--state %d is not supported, use 1 to 4", *number)
		case !chosen && format == "xml":
			return errors.New("-o xml prints one state: give --state")
		case chosen && format == "json":
			return errors.New("--state prints YAML or XML: leave out -o json")
		case chosen && !cmd.Flags().Changed("output"):
			if format = "yaml"; *number == guestdiff.StateRunning {
				format = "xml"
			}
		case chosen && (format == "text" || format == "wide"):
			return fmt.Errorf("--state prints YAML or XML: leave out -o %s", format)
		}
		states, err := o.readStates(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		if !chosen {
			return o.printStates(states)
		}
		document, err := states[*number-1].Document(format)
		if err == nil {
			fmt.Fprintln(cmdutil.Unwrapped(o.Out), strings.TrimRight(document, "\n"))
		}
		return err
	}
	o.AddContext(cmd)
	o.AddOutput(cmd, "text", "text", "wide", "json", "yaml", "xml")
	o.Answers(cmd, "StateList", []guestdiff.State{})
	return cmd
}

// readStates returns the states of a VM. name may be the name of its VMI.
func (o *statesRun) readStates(ctx context.Context, name string) ([]guestdiff.State, error) {
	if cmdutil.IsFile(name) {
		return nil, fmt.Errorf("%s: a file has one state: name a VM of the cluster, such as vm/web", name)
	}
	o.Bench.Quiet = true
	if err := o.ReadClusterSettings(ctx, []string{name}); err != nil {
		return nil, err
	}
	of, err := o.ReadGuests(ctx, name)
	if err != nil {
		return nil, err
	}
	if of.VM.Guest.VM == nil {
		return nil, fmt.Errorf("%s does not belong to a VirtualMachine: name a VM, such as vm/web", of.VM.Name())
	}
	reader, err := o.Client()
	if err != nil {
		return nil, err
	}
	states, notes, err := guestdiff.States(ctx, &o.Bench, reader, of)
	o.PrintNotes(notes)
	if err != nil {
		return nil, o.PrintRefusal(err)
	}
	return states, nil
}

// shownDigest is how many bytes of a digest the table shows. -o wide, JSON and YAML have the whole digest.
const shownDigest = len("sha256:") + 12

// printStates prints a table with a row for each state, and the differences below it.
func (o *statesRun) printStates(states []guestdiff.State) error {
	if o.Output != "text" && o.Output != "wide" {
		return o.Print(states)
	}
	var rows [][]string
	for _, s := range states {
		at := ""
		if !s.Time.IsZero() {
			at = s.Time.UTC().Format(time.RFC3339)
		}
		digest := s.Digest
		if o.Output != "wide" {
			digest = digest[:min(len(digest), shownDigest)]
		}
		rows = append(rows, []string{fmt.Sprintf("%d %s", s.State, s.Name), orDash(digest), orDash(at), s.Cause})
	}
	if err := table.Print(&o.Printer, table.Columns("STATE", "DIGEST", "TIME", "CAUSE"), rows); err != nil {
		return err
	}
	numbered := map[string]string{}
	for _, s := range states {
		numbered[s.Name] = cmdutil.Printable(fmt.Sprintf("%d %s", s.State, s.Name))
	}
	for _, s := range states {
		differ := numbered[s.Newer] + " differs from " + numbered[s.Older]
		if s.State == guestdiff.StateSnapshots {
			differ = numbered[s.Name] + " differs from the record"
		}
		switch {
		case s.Open != "":
			fmt.Fprintf(o.Out, "\n%s lacks what the state above requests:\n  %s\n", numbered[s.Name], cmdutil.Printable(s.Open))
		case s.Hidden: // the known hardware is equal, so there is no verdict
			fmt.Fprintf(o.Out, "\n%s in something that a record does not contain: memory, vCPUs, the CPU model or settings of devices\n", differ)
		case len(s.Changes) > 0:
			fmt.Fprintf(o.Out, "\n%s: %s\n", differ, record.Judge(s.Changes))
		}
		for _, change := range record.WithoutConsequences(s.Changes) {
			fmt.Fprintf(o.Out, "  %s\n", cmdutil.Printable(change.Text))
		}
	}
	return nil
}

// orDash returns '-' for an empty text.
func orDash(text string) string { return cmp.Or(text, "-") }
