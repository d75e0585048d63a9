package catalogcmd

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/kilnvm/kiln/internal/cli/cmdutil"
	"github.com/kilnvm/kiln/internal/workbench/cataloginstall"
)

// installReport is the JSON document of 'catalog install' and 'catalog uninstall'.
// Actions are the actions that were executed, or with --dry-run would be. With conflicts there are no actions, because nothing is written.
type installReport struct {
	cataloginstall.Plan
	DryRun bool `json:"dryRun"`
}

// printConflicts prints why nothing is written. It returns ErrRejected.
// A conflict without a name is about the whole catalog, such as a name that was installed from another repository.
func (i *installRun) printConflicts(r installReport) error {
	if i.Documents {
		r.Actions = []cataloginstall.Action{}
		if err := i.Print(r); err != nil {
			return err
		}
		return cmdutil.ErrRejected
	}
	for _, c := range r.Conflicts {
		object := ""
		if c.Name != "" {
			object = c.String() + ": "
		}
		fmt.Fprintln(i.ErrOut, cmdutil.Printable(object+c.Reason))
	}
	fmt.Fprintf(i.ErrOut, "%s: nothing is written; --force takes over objects and fields that belong to others\n", cmdutil.Counted(len(r.Conflicts), "conflict"))
	return cmdutil.ErrRejected
}

// past has the texts for executed changes.
var past = map[cataloginstall.Change]string{
	cataloginstall.Create: "created", cataloginstall.Update: "updated", cataloginstall.Unchanged: "unchanged", cataloginstall.Obsolete: "obsolete",
	cataloginstall.Delete:  "deleted",
	cataloginstall.Release: "released",
}

// printAction prints an executed change. It prints nothing for an unchanged object, unless the object waits for its removal.
func (i *installRun) printAction(a cataloginstall.Action) {
	if i.Documents || a.Change == cataloginstall.Unchanged && a.Reason == "" {
		return
	}
	text := a.String() + ": " + past[a.Change]
	if a.Change == cataloginstall.Unchanged {
		text = a.String() + ": " + a.Reason
	} else if a.Reason != "" {
		text += " (" + a.Reason + ")"
	}
	if i.dryRun {
		text += " (dry run)"
	}
	if names := referrerNames(a); names != "" && a.Change == cataloginstall.Update {
		text += "; keep their revisions: " + names
	} else if names != "" {
		text += "; used by " + names
	}
	fmt.Fprintln(i.Out, cmdutil.Printable(text))
}

// referrerNames returns the names of some VMs and VMIs that refer to an object. It leaves out the VMI of a VM.
func referrerNames(a cataloginstall.Action) string {
	var names []string
	seen := map[string]bool{}
	for _, vm := range a.VMs {
		seen[vm] = true
		names = append(names, "vm/"+vm)
	}
	for _, vmi := range a.VMIs {
		if !seen[vmi] {
			names = append(names, "vmi/"+vmi)
		}
	}
	if len(names) > cmdutil.Shown {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:cmdutil.Shown], ", "), len(names)-cmdutil.Shown)
	}
	return strings.Join(names, ", ")
}

// printInstalled prints the actions of a run, or of a dry run. It is also called after a fault, with the actions before it. An empty list is
// printed as [], because jq's iteration fails on null.
func (i *installRun) printInstalled(r installReport) error {
	if i.Documents {
		r.Actions = append([]cataloginstall.Action{}, r.Actions...)
		return i.Print(r)
	}
	count := map[cataloginstall.Change]int{}
	for _, a := range r.Actions {
		count[a.Change]++
	}
	var parts []string
	for _, change := range []cataloginstall.Change{cataloginstall.Create, cataloginstall.Update, cataloginstall.Unchanged, cataloginstall.Obsolete,
		cataloginstall.Release, cataloginstall.Delete} {
		if count[change] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", count[change], past[change]))
		}
	}
	title := "catalog '" + r.Name + "'"
	if r.Version != "" {
		title += " " + r.Version
	}
	if r.Digest != "" {
		title += " (" + r.Digest + ")"
	}
	if r.DryRun {
		title += " (dry run)"
	}
	fmt.Fprintf(i.Out, "%s: %s\n", title, cmp.Or(strings.Join(parts, ", "), "nothing to do"))
	return nil
}
