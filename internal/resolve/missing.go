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
	// otherKind is the other kind that the reference may name, and otherNamespace where an object of it would be; empty for none.
	otherKind, otherNamespace string
	// otherForbidden is why the reference may not name the other kind after all; empty where it may.
	otherForbidden string
	// self is the name of the object that has the reference, where it is of the kind that is missing: it cannot refer to itself.
	self string
	// refused is the error of a name that no object can have.
	refused *field.Error
}

// warnMissing adds a missing object and its warning.
func (a *Resolution) warnMissing(missing Missing, format string, args ...any) {
	missing.Warning = fmt.Sprintf(format, args...)
	a.Missing = append(a.Missing, missing)
	a.Warnings = append(a.Warnings, missing.Warning)
}
