package resolve

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Missing is an object that a reference leads to and that does not exist. It may be created later: the webhook only warns of it.
type Missing struct {
	// Path is the field of the VM that refers to it, and Value the field's value.
	Path  *field.Path
	Value string
	// Kind and Namespace are those of the instancetype or preference. Both are empty for a revision, and for a volume without its source.
	Kind, Namespace string
	// Warning is the text in Resolution.Warnings; empty where the name is refused.
	Warning string
	// guests is the namespace of the VM.
	guests string
	// refused is the error of a name that no object can have.
	refused *field.Error
}

// warnMissing adds a missing object and its warning.
func (a *Resolution) warnMissing(missing Missing, format string, args ...any) {
	missing.Warning = fmt.Sprintf(format, args...)
	a.Missing = append(a.Missing, missing)
	a.Warnings = append(a.Warnings, missing.Warning)
}
