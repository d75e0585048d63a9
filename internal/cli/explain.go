package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/kilnvm/kiln/internal/cli/cmdutil"
	"github.com/kilnvm/kiln/internal/workbench"
	"github.com/kilnvm/kiln/pkg/admit"
	"github.com/kilnvm/kiln/pkg/fieldpath"
	"github.com/spf13/cobra"
)

// explainOptions is a run of 'explain'.
type explainOptions struct{ cmdutil.Inputs }

// explainCommand is 'explain'. What was not applied costs a run of stage 1 for each field of the preference; only this command pays it.
// The exit status is 1 if a VM is rejected or its instancetype does not exist, and 2 if nothing bootable is named.
func explainCommand(s *cmdutil.Session) *cobra.Command {
	o := &explainOptions{cmdutil.NewInputs(s)}
	cmd := &cobra.Command{
		Use:   "explain (-f FILE|DIR|- | -k DIR | vm/NAME ...)",
		Short: "Show where each field of the explicit VMI comes from",
		Long: "Show the explicit VMI of each VM as a tree, with the origin of each value: the user, an instancetype, a preference, a\n" +
			"preset, a profile with what it extends, or a default with the pass that sets it. The fields of preferences and presets\n" +
			"that were not applied follow, each with the reason. A VMI that a VM made is explained by its VM and the revisions that it is pinned to.",
		Example: "  kubectl kiln explain -f vm.yaml --catalog catalog/\n" +
			"  kubectl kiln explain vm/web -o json | jq '.fields[] | select(.origin.kind == \"user\")'",
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.EachGuest(cmd, args, func(r workbench.Reviewed) error { return o.printExplanation(cmd.Context(), r) })
		},
	}
	o.AddInputs(cmd)
	o.AddOutput(cmd, "text", "text", "json", "yaml")
	return cmd
}

// printExplanation prints the tree of fields with their origins, then what was not applied, then notes. Documents have an empty list where everything
// was applied, since jq fails on null.
func (o *explainOptions) printExplanation(ctx context.Context, r workbench.Reviewed) error {
	explained, err := r.Explain(ctx)
	if err != nil {
		return err
	}
	if explained.NotApplied == nil {
		explained.NotApplied = []admit.Skipped{}
	}
	if o.Output != "text" {
		return o.Print(struct {
			Object string `json:"object"`
			admit.Explanation
			Frontend *workbench.Frontend `json:"frontend,omitempty"`
		}{r.Name(), explained, r.Frontend()})
	}
	fmt.Fprintf(o.Out, "%s\n", r.Name())
	rows, err := tree(explained.Fields)
	if err != nil {
		return err
	}
	width := 0
	for _, r := range rows {
		if r.origin != "" {
			width = max(width, min(len(r.text), widest))
		}
	}
	for _, r := range rows {
		fmt.Fprintln(o.Out, strings.TrimRight(fmt.Sprintf("%-*s   %s", width, r.text, r.origin), " "))
	}
	if len(explained.NotApplied) > 0 {
		fmt.Fprintln(o.Out, "not applied:")
	}
	for _, s := range explained.NotApplied {
		fmt.Fprintf(o.Out, "  %s: %s: %s\n", s.Origin, s.Field, s.Reason)
	}
	if frontend := r.Frontend(); frontend != nil { // a record is text of others
		fmt.Fprintf(o.Out, "note: FrontendProfile %q, of the %s, sets the hardware that no field of the VMI governs\n", frontend.Version, frontend.Origin)
	}
	for _, note := range explained.Notes {
		fmt.Fprintf(o.Out, "note: %s\n", note)
	}
	return nil
}

// row is one line of the tree. An object or list has no origin: only its leaves have one.
type row struct{ text, origin string }

// widest is the last column, in bytes, at which origins start: a long value, such as cloud-init user data, must not move all others off
// the screen.
const widest = 72

// tree returns the rows of facts, which come in the order of their paths: a row is added for each step that the path before lacks.
// Values are printed as JSON, in which a text is quoted and the escape character of a terminal is not left as it is.
func tree(facts []admit.Fact) ([]row, error) {
	var rows []row
	var above []string
	for _, fact := range facts {
		steps := branches(fact.Path)
		last := len(steps) - 1
		for depth := common(above, steps); depth < last; depth++ {
			rows = append(rows, row{text: indent(depth) + steps[depth] + ":"})
		}
		value, err := json.Marshal(fact.Value)
		if err != nil {
			return nil, err
		}
		rows = append(rows, row{indent(last) + steps[last] + ": " + string(value), fact.Origin.String()})
		above = steps
	}
	return rows, nil
}

// branches are the fields of a path, each with the indices and keys that belong to it: 'disks[0]'.
func branches(path string) (fields []string) {
	for _, step := range fieldpath.Parse(path) {
		if step.Element && len(fields) > 0 {
			fields[len(fields)-1] += step.String()
			continue
		}
		fields = append(fields, step.String())
	}
	return fields
}

// common returns how many steps two paths share from their start, not counting the last one, since each leaf has a row of its own.
// Lists need no case of their own: branches keeps 'disks[0]' and 'disks[1]' apart.
func common(a, b []string) int {
	n := 0
	for n < len(a)-1 && n < len(b)-1 && a[n] == b[n] {
		n++
	}
	return n
}

// indent returns the spaces before a row; the first level is below the name of the object.
func indent(depth int) string { return strings.Repeat("  ", depth+1) }
