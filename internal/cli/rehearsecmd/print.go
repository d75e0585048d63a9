package rehearsecmd

import (
	"cmp"
	"encoding/csv"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/kilnvm/kiln/internal/cli/cmdutil"
	"github.com/kilnvm/kiln/internal/workbench/rehearsal"
	"github.com/kilnvm/kiln/pkg/record"
)

// shown is how many changes, namespaces and owners of a group the text names. JSON and -o wide have all.
const shown = 5

// colors are the colors of verdicts.
var colors = map[rehearsal.Verdict]cmdutil.Color{
	rehearsal.Same: cmdutil.Green, rehearsal.Live: cmdutil.Green, rehearsal.Restart: cmdutil.Yellow, rehearsal.Breaks: cmdutil.Red, rehearsal.Refused: cmdutil.Red,
}

// writeRehearsal writes the counts by verdict in one line, and then the groups. It replaces control characters, because tenants write names and values.
func writeRehearsal(out io.Writer, r *rehearsal.Rehearsal, all bool) {
	var counts []string
	for _, verdict := range rehearsal.Verdicts {
		if n := r.Counts[verdict]; n > 0 || verdict.Rank() <= rehearsal.Refused.Rank() {
			counts = append(counts, fmt.Sprintf("%d %s", n, cmdutil.Paint(out, colors[verdict], string(verdict))))
		}
	}
	fmt.Fprintf(out, "%s: %s\n", cmdutil.Counted(len(r.VMs), "VM"), strings.Join(counts, ", "))
	line := func(format string, args ...any) { fmt.Fprintln(out, cmdutil.Printable(fmt.Sprintf(format, args...))) }
	if alone := sum(r.Installed); alone > 0 && len(r.Changes) > 0 {
		line("%s of these would change by 'kubectl kiln repin' alone: what is installed is newer than the pin", cmdutil.Counted(alone, "VM"))
	}
	if r.RefusedBefore > 0 {
		line("%s with refusals that exist without the changes: 'kubectl kiln audit' lists them", cmdutil.Counted(r.RefusedBefore, "VM"))
	}
	if r.KubeVirt != r.KubeVirtAfter {
		line("rules of KubeVirt: %s, after the changes %s", cmp.Or(r.KubeVirt, "none"), cmp.Or(r.KubeVirtAfter, "none"))
	}
	if len(r.Changes) > 0 {
		line("changes: %s", describeChanges(r.Changes, all))
	}
	installed := 0
	for i, g := range r.Groups {
		alone := ""
		if g.Installed && len(r.Changes) > 0 {
			if installed++; installed > shown && !all { // they come last
				fmt.Fprintln(out)
				line("and %s of VMs that 'kubectl kiln repin' alone would change: -o wide shows them", cmdutil.Counted(len(r.Groups)-i, "group"))
				break
			}
			alone = ", without the changes"
		}
		fmt.Fprintln(out)
		fmt.Fprintf(out, "%s: %s\n", cmdutil.Paint(out, colors[g.Verdict], string(g.Verdict)),
			cmdutil.Printable(fmt.Sprintf("%s%s, for example %s", cmdutil.Counted(g.VMs, "VM"), alone, g.Example)))
		writeGroup(line, g, all)
	}
}

// writeGroup writes the causes of a group, what its guests notice, and whose they are.
func writeGroup(line func(string, ...any), g rehearsal.Group, all bool) {
	for _, cause := range g.Causes {
		line("  cause: %s", describeCause(cause))
	}
	changes := slices.Clone(record.WithoutConsequences(g.Changes))
	slices.SortStableFunc(changes, func(a, b record.Change) int { // what breaks is not left out
		return cmp.Compare(rankOf(a), rankOf(b))
	})
	for i, change := range changes {
		if i == shown && !all {
			line("  and %d more changes", len(changes)-shown)
			break
		}
		mark := ""
		if change.Verdict == record.Breaks {
			mark = "   <- breaks"
		}
		line("  guest: %s%s", change.Text, mark)
	}
	if g.Rollout != nil {
		for _, text := range g.Rollout.Warnings() {
			line("  KubeVirt: %s", text)
		}
	}
	for _, refusal := range g.Refusals {
		line("  refused: %s: %s [%s, on %s]", refusal.Field, refusal.Message, ruleName(refusal), strings.Join(refusal.Refuses, ", "))
	}
	line("  namespaces: %s", describeCounts(g.Namespaces, all))
	if len(g.Owners) > 1 || g.Owners[0].Name != "" {
		line("  owners: %s", describeCounts(g.Owners, all))
	}
}

// rankOf returns 0 for a change that breaks, and otherwise 1.
func rankOf(c record.Change) int {
	if c.Verdict == record.Breaks {
		return 0
	}
	return 1
}

// ruleName returns the name of the policy that denies, or of the rule.
func ruleName(r rehearsal.Refusal) string {
	if r.Policy != "" {
		return "GuestPolicy " + r.Policy
	}
	return r.Rule
}

func describeCause(c rehearsal.Cause) string {
	text := c.Key.String()
	switch {
	case c.From != "" && c.To != "":
		text += ": " + c.From + " -> " + c.To
	case c.To != "":
		text += ": added as " + c.To
	case c.From != "":
		text += ": no longer applies, was " + c.From
	}
	if c.Installed {
		text += " (installed already)"
	}
	return text
}

// describeChanges counts the changes by action, with the first names of each.
func describeChanges(changes []rehearsal.Change, all bool) string {
	var parts []string
	for _, action := range []string{rehearsal.Added, rehearsal.Changed, rehearsal.Removed, rehearsal.Obsolete} {
		var names []string
		for _, change := range changes {
			if change.Action == action {
				names = append(names, change.Key.String())
			}
		}
		n := len(names)
		switch {
		case n == 0:
			continue
		case n > shown && !all:
			names = append(names[:shown:shown], fmt.Sprintf("and %d more", n-shown))
		}
		parts = append(parts, fmt.Sprintf("%d %s (%s)", n, action, strings.Join(names, ", ")))
	}
	return strings.Join(parts, "; ")
}

// describeCounts lists names with their numbers of VMs.
func describeCounts(counts []rehearsal.Count, all bool) string {
	var parts []string
	for i, c := range counts {
		if i == shown && !all {
			parts = append(parts, fmt.Sprintf("and %d more", len(counts)-shown))
			break
		}
		parts = append(parts, fmt.Sprintf("%s %d", cmp.Or(c.Name, "(no label)"), c.VMs))
	}
	return strings.Join(parts, ", ")
}

func sum(of map[rehearsal.Verdict]int) (n int) {
	for _, count := range of {
		n += count
	}
	return n
}

// writeCSV writes one row for each VM.
func writeCSV(out io.Writer, r *rehearsal.Rehearsal) error {
	w := csv.NewWriter(out)
	rows := [][]string{{"namespace", "name", "owner", "verdict", "group", "causes", "changes", "refusals"}}
	for _, vm := range r.VMs {
		var causes, changes, refusals []string
		group := ""
		if vm.Group > 0 {
			g := r.Groups[vm.Group-1]
			group = fmt.Sprint(vm.Group)
			for _, cause := range g.Causes {
				causes = append(causes, describeCause(cause))
			}
			for _, change := range record.WithoutConsequences(g.Changes) {
				changes = append(changes, change.Text)
			}
			for _, refusal := range g.Refusals {
				refusals = append(refusals, ruleName(refusal)+": "+refusal.Message)
			}
		}
		rows = append(rows, []string{vm.Namespace, vm.Name, vm.Owner, string(vm.Verdict), group, strings.Join(causes, "; "), strings.Join(changes, "; "),
			strings.Join(refusals, "; ")})
	}
	for _, row := range rows {
		for i := range row {
			row[i] = harmlessCell(row[i])
		}
		if err := w.Write(row); err != nil {
			return err
		}
	}
	w.Flush()
	return w.Error()
}

// harmlessCell returns the text of a cell that no spreadsheet takes for a formula, because tenants write labels.
func harmlessCell(text string) string {
	text = cmdutil.Printable(text)
	if strings.HasPrefix(text, "=") || strings.HasPrefix(text, "+") || strings.HasPrefix(text, "-") || strings.HasPrefix(text, "@") {
		return "'" + text
	}
	return text
}
