package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/kilnvm/kiln/internal/cli/cmdutil"
	"github.com/kilnvm/kiln/internal/workbench/presetmigration"
)

// printMigrated prints the manifests, then a report about the presets, and the VMs and VMIs that differ. It replaces control characters, because tenants write
// names and values.
func (m *migrateRun) printMigrated(done presetmigration.Result) error {
	if m.Documents {
		return m.Print(done)
	}
	report := m.ErrOut
	if m.folder != "" {
		report = m.Out
	}
	for _, p := range done.Presets {
		if p.Profile != nil && m.folder == "" {
			if err := m.PrintManifest(p.Profile, ""); err != nil {
				return err
			}
		}
	}
	for _, p := range done.Presets {
		printPreset(report, p)
	}
	for _, guest := range done.Guests {
		if guest.Fault == nil { // faults come last, as errors
			printMigratedGuest(report, guest)
		}
	}
	printCompared(report, done)
	return nil
}

// printPreset prints the profile of a preset, and the fields that it leaves out, or why there is no profile.
func printPreset(out io.Writer, p presetmigration.Preset) {
	line := func(format string, values ...any) {
		fmt.Fprintln(out, cmdutil.Printable(fmt.Sprintf(format, values...)))
	}
	switch {
	case len(p.Causes) > 0:
		line("preset %s is rejected and not migrated:", p.Preset)
	case p.Profile == nil:
		line("preset %s fills nothing: it has no profile", p.Preset)
	default:
		line("preset %s: GuestProfile %s", p.Preset, p.Preset)
	}
	for _, c := range p.Causes {
		line("  %s: %s", c.Field, c.Message)
	}
	for _, text := range p.LeftOut {
		line("  left out: %s", text)
	}
	for _, text := range p.Warnings {
		line("  Warning: %s", text)
	}
}

// printMigratedGuest prints a VM or VMI that differs or could not be compared. It prints nothing for an equal one.
func printMigratedGuest(out io.Writer, g presetmigration.Guest) {
	line := func(format string, values ...any) {
		fmt.Fprintln(out, cmdutil.Printable(fmt.Sprintf(format, values...)))
	}
	switch g.State {
	case presetmigration.Unknown:
		line("%s is not compared: it refers to an object that does not exist", g.Object)
	case presetmigration.Differs:
		line("%s differs:", g.Object)
	}
	for _, text := range g.Causes {
		line("  %s", text)
	}
	reason := ""
	for _, f := range g.Fields {
		if f.Reason != "" && f.Reason != reason { // fields of one area have the same reason
			line("  %s:", f.Reason)
			reason = f.Reason
		}
		line("    %s: %s -> %s (%s)", f.Field, orUnset(f.Before), orUnset(f.After), f.Origin)
	}
	if g.State == presetmigration.Differs {
		printRemedy(line, g)
	}
}

// printRemedy prints the change that keeps the VMI of a VM or VMI unchanged.
func printRemedy(line func(string, ...any), g presetmigration.Guest) {
	if g.Remedy == nil {
		if len(g.Fields) > 0 {
			line("  no edit keeps its VMI unchanged: keep the preset, or accept the change")
		}
		return
	}
	into := "it"
	if strings.HasPrefix(g.Object, "VirtualMachine ") {
		into = "its spec.template"
	}
	line("  to keep its VMI unchanged, write into %s:", into)
	if g.Remedy.Exclude {
		line("    metadata.annotations[virtualmachineinstancepresets.admission.kubevirt.io/exclude]: \"true\"")
	}
	for _, f := range g.Remedy.Fields {
		line("    %s: %s", f.Field, f.Value)
	}
}

func orUnset(value string) string {
	if value == "" {
		return "unset"
	}
	return value
}

// printCompared prints how many VMs and VMIs were compared, and that pinned VMs keep their presets.
func printCompared(out io.Writer, done presetmigration.Result) {
	count, filled, rendered, pinned := map[string]int{}, 0, 0, 0
	for _, g := range done.Guests {
		count[g.State]++
		if len(g.Presets) > 0 {
			filled++
		}
		if g.Rendered {
			rendered++
		}
		if g.Pinned {
			pinned++
		}
	}
	if len(done.Guests) == 0 {
		fmt.Fprintln(out, "nothing was compared: no VM or VMI was given")
		return
	}
	var parts []string
	for _, state := range []string{presetmigration.Equal, presetmigration.Differs, presetmigration.Rejected, presetmigration.Unknown, presetmigration.Stored} {
		if count[state] > 0 {
			parts = append(parts, fmt.Sprintf(compared[state], count[state]))
		}
	}
	fmt.Fprintf(out, "VMs and VMIs: %s\n", strings.Join(parts, ", "))
	fmt.Fprintf(out, "  %d of them have fields of presets; %d were rendered and their libvirt domains compared\n", filled, rendered)
	if pinned > 0 {
		fmt.Fprintf(out, "%s pinned to presets: a VM keeps the revisions of its pins when the presets are deleted, until\n"+
			"'kubectl kiln repin vm/NAME --presets --profiles' moves it to the profiles\n", cmdutil.Counted(pinned, "VM"))
	}
}

// compared has the formats of the counts of guests in each state.
var compared = map[string]string{
	presetmigration.Equal:    "%d equal",
	presetmigration.Differs:  "%d different",
	presetmigration.Rejected: "%d rejected with both presets and profiles",
	presetmigration.Unknown:  "%d not compared",
	presetmigration.Stored:   "%d existing VMIs, which are never filled again",
}
