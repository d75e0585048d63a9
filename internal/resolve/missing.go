package resolve

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Missing is what a reference leads to and is not there. It may be created later, so that the webhook only warns of it.
type Missing struct {
	// Path is the field of the VM that refers to it, and Value what stands there.
	Path  *field.Path
	Value string
	// Kind of the instancetype or preference, and its namespace if it has one. Empty for a revision, and for a volume that
	// cannot answer yet.
	Kind, Namespace string
	// Warning is the one in Answer.Warnings.
	Warning string
}

// warnMissing warns of what is missing.
func (a *Answer) warnMissing(missing Missing, format string, args ...any) {
	missing.Warning = fmt.Sprintf(format, args...)
	a.Missing = append(a.Missing, missing)
	a.Warnings = append(a.Warnings, missing.Warning)
}
