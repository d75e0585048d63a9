// Package nearest finds the existing name that a user probably meant by a name that does not exist.
package nearest

import (
	"slices"
	"strings"

	"github.com/agnivade/levenshtein"
	"github.com/kilnvm/kiln/pkg/shorten"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Bounds of a search. A tenant may have chosen the names, and the time to compare two names grows with the product of their lengths.
const (
	// Longest is the length in bytes of the longest name that is searched for. People type shorter names.
	Longest = 63
	// MostCompared is the largest number of names that are compared.
	MostCompared = 1000
)

// Name returns the name that was probably meant: a name that differs only in upper and lower case, else the name with the least distance without regard to
// case. Of several names with the same distance it returns the name with the longest common beginning, because people know how a name begins; then a name of
// the same length; then the first by the alphabet. It returns an empty text if less than two thirds of the name are right, or if the name is longer than
// Longest.
func Name(meant string, names []string) string {
	best, least := "", (len(meant)+2)/3+1
	if len(meant) > Longest {
		return ""
	}
	names = slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		return len(name)-len(meant) >= least || len(meant)-len(name) >= least
	})
	slices.Sort(names)
	lower := strings.ToLower(meant)
	if i := slices.IndexFunc(names, func(name string) bool { return strings.ToLower(name) == lower }); i >= 0 {
		return names[i]
	}
	for _, name := range names[:min(len(names), MostCompared)] {
		distance := levenshtein.ComputeDistance(lower, strings.ToLower(name))
		if distance < least || distance == least && best != "" && isLikelier(lower, name, best) {
			best, least = name, distance
		}
	}
	return best
}

// NoObject is the beginning of an error about a name that no object can have. The form of names follows.
const NoObject = "no object can have this name"

// Short cuts a name to Longest bytes, for warnings. An API server may cut warnings after 256 characters, and a name may have 253: the rest of the warning must
// not be lost.
func Short(name string) string { return shorten.Bytes(name, Longest) }

// isLikelier reports whether name was more probably meant than another name at the same distance.
func isLikelier(meant, name, than string) bool {
	if a, b := commonBeginning(meant, name), commonBeginning(meant, than); a != b {
		return a > b
	}
	return len(name) == len(meant) && len(than) != len(meant)
}

// commonBeginning returns the number of bytes at the beginning that both texts have, without regard to case.
func commonBeginning(a, b string) (n int) {
	a, b = strings.ToLower(a), strings.ToLower(b)
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}

// Unsupported returns an error about a word that is not supported. If the word is in another case, in the plural or mistyped, the error names the word that was
// probably meant.
func Unsupported(at *field.Path, word string, supported []string) *field.Error {
	err := field.NotSupported(at, word, supported)
	if meant := Name(word, supported); meant != "" {
		err.Detail += "; did you mean '" + meant + "'?"
	}
	return err
}
