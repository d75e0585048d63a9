package guestcmd

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	"github.com/kilnvm/kiln/internal/cli/cmdutil"
	"github.com/kilnvm/kiln/internal/workbench"
	"github.com/kilnvm/kiln/pkg/admit"
	"github.com/kilnvm/kiln/pkg/fieldpath"
	"github.com/spf13/cobra"
)

// explainRun is a run of 'explain'.
type explainRun struct{ cmdutil.Inputs }

// ExplainCommand returns 'explain'. To find the fields that were not applied, it runs stage 1 once for each field of the preference.
// The exit status is 1 if a VM is rejected or its instancetype does not exist, and 2 if the user names no VM or VMI.
func ExplainCommand(s *cmdutil.Session) *cobra.Command {
	o := &explainRun{cmdutil.NewInputs(s)}
	cmd := &cobra.Command{
		Use:   "explain (-f FILE|DIR|- | -k DIR | vm/NAME ...)",
		Short: "Show where each field of the explicit VMI comes from",
		Long: "Show the explicit VMI of each VM as a tree, with the origin of each value: the user, an instancetype, a preference, a\n" +
			"preset, a profile and its bases, or a default with the pass that sets it. Then it lists the fields of preferences and presets\n" +
			"that were not applied, each with the reason. A VMI that a VM created is explained by its VM and the revisions that it is pinned to.",
		Example: "  kubectl kiln explain -f vm.yaml --catalog catalog/\n" +
			"  kubectl kiln explain vm/web -o json | jq '.items[].fields[] | select(.origin.kind == \"user\")'",
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.EachGuest(cmd, args, func(r workbench.Reviewed) error { return o.printExplanation(cmd.Context(), r) })
		},
	}
	o.AddInputs(cmd)
	o.AddOutput(cmd, "text", "text", "json", "yaml")
	o.Answers(cmd, "Explanation", explanation{})
	return cmd
}

// explanation is the document of one VM or VMI.
type explanation struct {
	Object string `json:"object"`
	admit.Explanation
	Frontend *workbench.Frontend `json:"frontend,omitempty"`
}

// printExplanation prints the tree of fields with their origins, then the fields that were not applied, then notes. In JSON and YAML, the list of fields that
// were not applied may be empty, but is never null, on which jq fails.
func (o *explainRun) printExplanation(ctx context.Context, r workbench.Reviewed) error {
	explained, err := r.Explain(ctx)
	if err != nil {
		return err
	}
	if explained.NotApplied == nil {
		explained.NotApplied = []admit.Skipped{}
	}
	if o.Output != "text" {
		return o.Print(explanation{r.Name(), explained, r.Frontend()})
	}
	fmt.Fprintf(o.Out, "%s\n", r.Name())
	rows, err := treeRows(explained.Fields)
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
		fmt.Fprintf(o.Out, "  %s: %s: %s\n", shortRevisions(s.Origin.String()), s.Field, s.Reason)
	}
	if frontend := r.Frontend(); frontend != nil { // %q, because others may have written the record
		fmt.Fprintf(o.Out, "note: FrontendProfile %q, of the %s, sets the hardware for which a VMI has no field\n", frontend.Version, frontend.Origin)
	}
	for _, note := range explained.Notes {
		fmt.Fprintf(o.Out, "note: %s\n", note)
	}
	return nil
}

// row is one line of the tree. Only leaves have an origin.
type row struct{ text, origin string }

// widest is the last column, in bytes, at which origins start. A long value, such as cloud-init user data, must not move the origins of others off
// the screen.
const widest = 72

// treeRows returns the rows of facts, which must be sorted by path. It adds a row for each step of a path that the path before lacks.
// Values are JSON, which escapes the control characters of a terminal.
func treeRows(facts []admit.Fact) ([]row, error) {
	var rows []row
	var above []string
	for _, fact := range facts {
		steps := pathFields(fact.Path)
		last := len(steps) - 1
		for depth := commonSteps(above, steps); depth < last; depth++ {
			rows = append(rows, row{text: indentation(depth) + steps[depth] + ":"})
		}
		value, err := json.Marshal(fact.Value)
		if err != nil {
			return nil, err
		}
		rows = append(rows, row{indentation(last) + steps[last] + ": " + string(value), shortRevisions(fact.Origin.String())})
		above = steps
	}
	return rows, nil
}

// digest is the digest of 26 characters at the end of a revision's name, of which people read the first ones.
var digest = regexp.MustCompile(`(@[^ ,]*-[a-z2-7]{8})[a-z2-7]{18}\b`)

// shortRevisions shortens the names of revisions in a text for people. JSON and YAML have the complete names.
func shortRevisions(text string) string { return digest.ReplaceAllString(text, "$1") }

// pathFields returns the fields of a path, each with its indices and keys: 'disks[0]'.
func pathFields(path string) (fields []string) {
	for _, step := range fieldpath.Parse(path) {
		if step.Element && len(fields) > 0 {
			fields[len(fields)-1] += step.String()
			continue
		}
		fields = append(fields, step.String())
	}
	return fields
}

// commonSteps returns the number of steps that two paths share from their start. It does not count the last step, because each leaf has its own row.
func commonSteps(a, b []string) int {
	n := 0
	for n < len(a)-1 && n < len(b)-1 && a[n] == b[n] {
		n++
	}
	return n
}

// indentation returns the spaces before a row. Rows of depth 0 are indented, too, because they are below the name of the object.
func indentation(depth int) string { return strings.Repeat("  ", depth+1) }
