// Package importreport shows the report of an import: as text for a terminal, and as one HTML page for the owner of the VM.
package importreport

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/kilnvm/kiln/internal/cli/cmdutil"
	"github.com/kilnvm/kiln/internal/cli/cmdutil/table"
	"github.com/kilnvm/kiln/internal/workbench/domainimport"
	"github.com/kilnvm/kiln/pkg/record"
)

// Print prints a row for each element that is not kept as it was, and what must be done.
func Print(o *cmdutil.Printer, report domainimport.Report) error {
	var rows [][]string
	counts := countOutcomes(report)
	ports := 0
	for _, e := range report.Elements {
		switch {
		case e.Outcome == domainimport.Kept || e.Outcome == domainimport.Recorded:
		case e.Outcome == domainimport.Added && strings.HasPrefix(e.Device, "controller.pci."):
			ports++
		default:
			rows = append(rows, []string{e.Path, string(e.Outcome), string(e.Verdict), cmp.Or(strings.Join(reasonsOf(e), "; "), "-")})
		}
	}
	if ports > 0 {
		details := cmdutil.Counted(ports, "PCI controller") + " for more devices"
		rows = append(rows, []string{"controller.pci.*", string(domainimport.Added), string(record.NeedsRestart), details})
	}
	if err := table.Print(o, table.Columns("ELEMENT", "OUTCOME", "FOR THE GUEST", "DETAILS"), rows); err != nil {
		return err
	}
	say := func(format string, args ...any) {
		fmt.Fprintln(o.Out, cmdutil.Printable(fmt.Sprintf(format, args...)))
	}
	say("")
	for _, note := range report.Notes {
		say("%s", note)
	}
	for _, choice := range report.Choices {
		say("%s", choiceText(choice))
	}
	for _, step := range report.Steps {
		say("%s", step)
	}
	say("%s of domain '%s': %d kept by the VM, %d by the record, %d mapped, %d left to the cluster, %d changed, %d left out; %d added",
		cmdutil.Counted(len(report.Elements)-counts[domainimport.Added], "element"), report.Domain, counts[domainimport.Kept], counts[domainimport.Recorded],
		counts[domainimport.Mapped], counts[domainimport.HostOnly], counts[domainimport.Changed], counts[domainimport.LeftOut], counts[domainimport.Added])
	if report.Verdict == record.Compatible {
		say("the guest sees no difference")
	} else {
		say("for the guest: %s", report.Verdict)
	}
	return nil
}

// choiceText says whether the VM uses an object of the catalog, and why not.
func choiceText(c domainimport.Choice) string {
	used := "is used"
	if !c.Used {
		used = "is not used"
	}
	text := fmt.Sprintf("%s '%s' %s", c.Kind, c.Name, used)
	if len(c.Details) > 0 {
		text += ": " + strings.Join(c.Details, "; ")
	}
	return text
}

// countOutcomes counts the elements of each outcome.
func countOutcomes(report domainimport.Report) map[domainimport.Outcome]int {
	counts := map[domainimport.Outcome]int{}
	for _, e := range report.Elements {
		counts[e.Outcome]++
	}
	return counts
}

// reasonsOf returns what is different of an element and why, and the settings of the host that the VM does not have.
func reasonsOf(e domainimport.Element) []string {
	if len(e.Host) == 0 {
		return e.Details
	}
	return append(slices.Clone(e.Details), "not kept: "+strings.Join(e.Host, ", "))
}
