package validate

import (
	"strings"
	"testing"
)

// TestSurelyFew: what is counted as a text alone, and the nearest that is read. Whatever the answer, the verdict on an object is the same.
// A walk of each object would take the time that this saves.
func TestSurelyFew(t *testing.T) {
	digits := func(n int) string { return strings.Repeat("7", n) }
	for _, test := range []struct {
		why    string
		limits counts
		raw    string
		few    bool
	}{
		{"an ordinary object", written, `{"spec":{"memory":"64Mi","cores":12345,"list":["a","b"]}}`, true},
		{"as many brackets as may be nested", written, strings.Repeat("{", maxDepth/2) + strings.Repeat("[", maxDepth/2), true},
		{"one more", written, strings.Repeat("{", maxDepth/2+1) + strings.Repeat("[", maxDepth/2), false},
		{"as many commas as a list of templates may have", written, strings.Repeat(",", written.templates-1), true},
		{"one more", written, strings.Repeat(",", written.templates), false},
		{"as many parts as an object may have", stored, "{" + strings.Repeat(",", stored.parts-1), true},
		{"one more", stored, "{[" + strings.Repeat(",", stored.parts-1), false},
		{"an escape that may hide a digit", written, `"\u0031"`, false},
		{"one that hides none", written, `"\n"`, true},
		{"an exponent of three digits", written, "e" + digits(longestExponent), true},
		{"one of four", written, "e" + digits(longestExponent+1), false},
		{"one in capitals, with a sign", written, "1E-" + digits(longestExponent), false},
		{"four digits after another letter", written, "d" + digits(longestExponent+1), true},
		{"digits at the beginning", written, digits(longestExponent + 1), true},
		{"as many digits as a number may have", written, digits(longestNumber), true},
		{"one more", written, digits(longestNumber + 1), false},
		{"as many, in two numbers", written, digits(longestNumber) + "x" + digits(longestNumber), true},
	} {
		if few := test.limits.surelyFew([]byte(test.raw)); few != test.few {
			t.Errorf("%s: %t: %.80s", test.why, few, test.raw)
		}
	}
}
