package cmdutil

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kilnvm/kiln/internal/revision"
)

// Counted returns a number and its noun, with a plural s unless the number is 1.
func Counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// Shown is how many users of a revision a line names, because thousands of VMs may share one revision. JSON and YAML name all.
const Shown = 3

// UserNames returns the names of at most most users of a revision, and the number of the others. Without users it returns 'none', and since when if that is
// known.
func UserNames(u revision.Usage, most int) string {
	var names []string
	for _, name := range u.VMs {
		names = append(names, "vm/"+name)
	}
	for _, name := range u.VMIs {
		if !slices.Contains(u.VMs, name) { // the VMI of a VM has the pins of the VM
			names = append(names, "vmi/"+name)
		}
	}
	for _, name := range u.Contents {
		names = append(names, "vmsnapshotcontent/"+name)
	}
	switch {
	case len(names) == 0 && u.UnusedSince != "":
		return "none since " + u.UnusedSince
	case len(names) == 0:
		return "none"
	case len(names) > most:
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
	}
	return strings.Join(names, ", ")
}
