package nearest

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Unsupported returns the error of a word that is none of the supported ones. A word in another case, in the plural or mistyped comes with the one that was
// probably meant.
func Unsupported(at *field.Path, word string, supported []string) *field.Error {
	err := field.NotSupported(at, word, supported)
	if meant := Name(word, supported); meant != "" {
		err.Detail = fmt.Sprintf("did you mean '%s'? %s", meant, err.Detail)
	}
	return err
}
