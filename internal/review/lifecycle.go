package review

import (
	"fmt"

	"github.com/kilnvm/kiln/pkg/instancetype"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// judgeLifecycles warns of deprecated objects among the current ones that a VM refers to, and returns an error for each obsolete one. Only a VM that is created
// is refused. A VM with pins, such as one from a backup, refers to revisions and not to current objects.
func (r Reviewer) judgeLifecycles(reviewed *VM) (refused field.ErrorList) {
	if len(reviewed.Resolved.Current) == 0 {
		return nil
	}
	now := r.CurrentTime()
	warn := func(text string) { reviewed.Resolved.Warnings = append(reviewed.Resolved.Warnings, text) }
	for _, current := range reviewed.Resolved.Current {
		read := instancetype.ReadLifecycle(current.Object, now)
		for _, warning := range read.Warnings() {
			warn(fmt.Sprintf("%s: %s", current.Source, warning))
		}
		switch notice := read.Notice(); {
		case notice == "":
		case read.Obsolete() && reviewed.old == nil && !r.Stored:
			refused = append(refused, field.Invalid(current.Path, current.Name, fmt.Sprintf("%s %s", current.Source, notice)).WithOrigin("vm/obsolete"))
		default:
			warn(fmt.Sprintf("%s %s", current.Source, notice))
		}
	}
	return refused
}
