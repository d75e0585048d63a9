package resolve

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Missing is an object that a VM refers to and that does not exist. The webhook only warns of it, because it may be created later.
type Missing struct {
	// Path is the field of the VM that refers to it, and Value the field's value.
	Path  *field.Path
	Value string
	// Kind and Namespace are of the missing object. Both are empty for a revision, and for the source of a volume.
	Kind, Namespace string
	// Warning is the text in Resolution.Warnings; empty if the name is refused.
	Warning string
	// otherKind is the other kind that the reference may name, and otherNamespace the namespace of its objects. Both are empty if there is no other kind.
	otherKind, otherNamespace string
	// otherForbidden is the reason why the reference may not name an object of the other kind; empty if it may.
	otherForbidden string
	// self is the name of the object that has the reference, if it has the kind of the missing object. An object cannot refer to itself.
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
