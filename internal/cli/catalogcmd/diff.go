package catalogcmd

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/kilnvm/kiln/internal/cli/cmdutil"
	"github.com/kilnvm/kiln/internal/workbench/catalogs"
	"github.com/kilnvm/kiln/pkg/catalog"
	"github.com/kilnvm/kiln/pkg/record"
	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/labels"
)

// diffRun is a run of 'catalog diff'.
type diffRun struct{ catalogOptions }

// catalogDiffCommand returns 'catalog diff'. It has the same exit statuses as 'diff', so that one pipeline can judge VMs and catalogs.
// Added and removed objects do not change the status: their step, minor or major, is in the output (docs/how-to/catalog.md, Diff).
func catalogDiffCommand(s *cmdutil.Session) *cobra.Command {
	o := &diffRun{newCatalogOptions(s)}
	cmd := &cobra.Command{
		Use:   "diff A B",
		Short: "Judge how the next version of a catalog affects VMs",
		Long: "Judge the step from catalog A to catalog B: which objects are added, removed and changed, how VMs change that use the new\n" +
			"version of an object, and whether B is a major, minor or patch version. A and B are folders, files, '-',\n" +
			"'cluster' or OCI references. Existing VMs are pinned: they do not change until 'kubectl kiln repin'.\n\n" +
			"The exit status is 0 if all changes are compatible, 3 if one needs a restart, 4 if one breaks the guest's hardware or\n" +
			"VMs are refused, 1 if an object of A or B is rejected, and 2 if there are too many changes to judge each.",
		Example: "  kubectl kiln catalog diff catalog-1.0/ catalog-1.1/\n" +
			"  kubectl kiln catalog diff cluster catalog/ -l instancetype.kubevirt.io/vendor=example.com",
		Args: cobra.ExactArgs(2),
	}
	selector := cmd.Flags().StringP("selector", "l", "", "compare only objects with these labels, such as instancetype.kubevirt.io/vendor=example.com")
	cmd.Flags().StringVar(&o.Bench.Config, "config", "",
		"file with KubeVirt's configuration, as the webhook's --config; default: KubeVirt's defaults with every feature gate on")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		wanted, err := labels.Parse(*selector)
		if err != nil {
			return fmt.Errorf("--selector: %w", err)
		}
		sides, err := o.readSides(cmd.Context(), args, wanted)
		if err != nil {
			return err
		}
		d, warnings, err := catalogs.Compare(cmd.Context(), &o.Bench, sides, time.Now())
		o.Warn(warnings...)
		if err != nil {
			return err
		}
		return o.printCatalogDifference(d)
	}
	o.AddRegistry(cmd)
	o.AddOutput(cmd, "text", "text", "json", "yaml")
	o.Answers(cmd, "CatalogDifference", catalog.Difference{})
	return cmd
}

// readSides reads both sides of a comparison, and prints their errors: there is no verdict on a part of a catalog.
// It returns ErrUnanswered if a file cannot be read, and otherwise ErrRejected if an object is refused. wanted does not exclude refused objects, because
// wrong labels may be the error.
func (o *diffRun) readSides(ctx context.Context, sources []string, wanted labels.Selector) (sides [2]catalogs.Catalog, outcome error) {
	for i, source := range sources {
		read, err := o.ReadCatalog(ctx, source)
		if err != nil {
			return sides, err
		}
		for _, f := range read.Refused {
			switch {
			case f.Severity != catalog.Error:
				continue
			case f.Rule == catalogs.RuleUnreadable:
				outcome = cmdutil.Worse(outcome, cmdutil.ErrUnanswered)
			default:
				outcome = cmdutil.Worse(outcome, cmdutil.ErrRejected)
			}
			printFinding(o.ErrOut, f)
		}
		sides[i] = read.Select(wanted)
	}
	return sides, outcome
}

// printCatalogDifference prints a difference, and returns the error for its exit status.
// If a change breaks VMs or is refused, the status is 4, even if others were not judged. Otherwise a change that was not judged may be as bad, so the status
// is 2, even if another change needs a restart (3).
func (o *diffRun) printCatalogDifference(d catalog.Difference) error {
	if o.Documents {
		if err := o.Print(d); err != nil {
			return err
		}
	} else {
		writeCatalogDifference(o.Out, d)
	}
	switch d.Verdict {
	case record.Breaks, catalog.Refused:
		return cmdutil.ErrBreaks
	}
	if slices.ContainsFunc(d.Changes, func(c catalog.Change) bool { return c.Verdict == "" && c.Untried > 0 }) {
		return o.PrintUnanswered(fmt.Errorf("some changes were not judged: there are too many; compare parts of the catalog with --selector"))
	}
	if d.Verdict == record.NeedsRestart {
		return cmdutil.ErrNeedsRestart
	}
	return nil
}

// marks are printed before changed objects, in the first column as in a unified diff: 'grep ^-' finds removed objects.
var marks = map[string]string{catalog.Added: "+", catalog.Removed: "-", catalog.Changed: "~"}

// writeCatalogDifference prints a line with the verdict and the counts, and then each change.
func writeCatalogDifference(out io.Writer, d catalog.Difference) {
	count := map[string]int{}
	for _, c := range d.Changes {
		count[c.Action]++
	}
	step := "this is a " + string(d.Step) + " version"
	if d.Step == catalog.Unchanged {
		step = "no new version"
	}
	fmt.Fprintf(out, "%s: %d added, %d removed, %d changed, %d unchanged; %s\n", d.Verdict, count[catalog.Added], count[catalog.Removed], count[catalog.Changed],
		d.Same, step)
	for _, c := range d.Changes {
		writeChange(out, c)
	}
}

// writeChange prints a change: its object, verdict and step, the fields that differ, how VMs change, and why some no longer boot. It replaces control
// characters, because values of fields are not trusted.
func writeChange(out io.Writer, c catalog.Change) {
	verdict := ""
	switch {
	case c.Verdict != "":
		verdict = ": " + string(c.Verdict)
	case c.Untried > 0:
		verdict = ": not judged"
	}
	fmt.Fprintln(out, cmdutil.Printable(fmt.Sprintf("%s %s%s (%s)", marks[c.Action], c.Key, verdict, c.Step)))
	for _, f := range c.Fields {
		line := fmt.Sprintf("    %s: %s -> %s", f.Path, f.Before, f.After)
		switch {
		case f.Before == "":
			line = fmt.Sprintf("    %s: added %s", f.Path, f.After)
		case f.After == "":
			line = fmt.Sprintf("    %s: removed %s", f.Path, f.Before)
		}
		fmt.Fprintln(out, cmdutil.Printable(line))
	}
	for _, s := range c.Seen {
		mark := ""
		if s.Verdict == record.Breaks {
			mark = "   <- breaks"
		}
		fmt.Fprintln(out, cmdutil.Printable("    "+s.Text+mark))
		fmt.Fprintln(out, cmdutil.Printable("        "+describeVMs(s.Where)))
	}
	for _, r := range c.Refusals {
		fmt.Fprintln(out, cmdutil.Printable("    refused: "+r.Reason))
		fmt.Fprintln(out, cmdutil.Printable("        "+describeVMs(r.Where)))
	}
	if c.Untried > 0 && c.Verdict != "" {
		fmt.Fprintf(out, "    tried with %d others, and not with %d more: there are too many changes\n", c.Tried, c.Untried)
	}
}

// describeVMs describes the VMs that a change affects: their architectures and at most five of the objects that they use with the changed one. JSON and YAML
// have all objects.
func describeVMs(w catalog.Where) string {
	const most = 5
	names := w.With
	more := ""
	if n := len(names) - most; n > 0 {
		names, more = names[:most], fmt.Sprintf(" and %d more", n)
	}
	return fmt.Sprintf("on %s; with %s%s", strings.Join(w.Architectures, ", "), strings.Join(names, ", "), more)
}
