package review

import (
	"fmt"
	"time"

	"github.com/kilnvm/kiln/pkg/instancetype"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// lifecycles warns of what is deprecated among that which a VM gets as it is now, and returns the refusals of what is obsolete. Only a VM that is
// created is refused. A VM that has pins, such as one of a backup, gets nothing as it is now.
func (r Reviewer) lifecycles(reviewed *VM) (refused field.ErrorList) {
	if len(reviewed.Resolved.Current) == 0 {
		return nil
	}
	now := time.Now
	if r.Now != nil {
		now = r.Now
	}
	warn := func(text string) { reviewed.Resolved.Warnings = append(reviewed.Resolved.Warnings, text) }
	for _, current := range reviewed.Resolved.Current {
		read := instancetype.ReadLifecycle(current.Object, now())
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
