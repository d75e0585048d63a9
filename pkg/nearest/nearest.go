// Package nearest finds the name that was probably meant by one that does not exist.
package nearest

import (
	"slices"
	"strings"

	"github.com/agnivade/levenshtein"
	"github.com/kilnvm/kiln/pkg/shorten"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Bounds of a search, whose names a tenant may have chosen: the distance of two names takes time by the product of their lengths.
const (
	// Longest is the length in bytes of the longest name that is searched for. People type shorter ones.
	Longest = 63
	// MostCompared is how many names are compared at most.
	MostCompared = 1000
)

// Name returns the name that was probably meant: the one that differs in upper and lower case alone, else that of the least distance without regard to
// case. Of several it is the one with the longest common beginning, since people know how a name begins; then the one of the same length; then the first by
// the alphabet. It is empty if less than two thirds of the name are right, or if the name is longer than Longest.
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

// NoObject is the fact of an error about a name that no object can have. The form of names follows.
const NoObject = "no object can have this name"

// Short returns a name as a warning has it. An API server may cut warnings after 256 characters, and a name may have 253: it is cut here, so that what is
// said of it is not.
func Short(name string) string { return shorten.Bytes(name, Longest) }

// isLikelier reports whether of two names at the same distance the first was rather meant than the second.
func isLikelier(meant, name, than string) bool {
	if a, b := commonBeginning(meant, name), commonBeginning(meant, than); a != b {
		return a > b
	}
	return len(name) == len(meant) && len(than) != len(meant)
}

// commonBeginning is the number of bytes with which both texts begin, without regard to case.
func commonBeginning(a, b string) (n int) {
	a, b = strings.ToLower(a), strings.ToLower(b)
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}

// Unsupported returns the error of a word that is none of the supported ones. A word in another case, in the plural or mistyped comes with the one that was
// probably meant.
func Unsupported(at *field.Path, word string, supported []string) *field.Error {
	err := field.NotSupported(at, word, supported)
	if meant := Name(word, supported); meant != "" {
		err.Detail += "; did you mean '" + meant + "'?"
	}
	return err
}
