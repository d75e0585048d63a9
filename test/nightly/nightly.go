// Package nightly gives tests what 'make nightly' sets by environment variables.
package nightly

import (
	"os"
	"strconv"
	"testing"
)

// Only skips a long test, which repeats a shorter one with more cases, unless NIGHTLY is set. test/skipped.sh names what was skipped.
func Only(t testing.TB) {
	t.Helper()
	if os.Getenv("NIGHTLY") == "" {
		t.Skip("only 'make nightly' runs it: NIGHTLY is not set")
	}
}

// Number returns the number in an environment variable, or the value of otherwise if the variable is unset or empty. It fails the test if the value is not a
// number.
func Number(t testing.TB, name string, otherwise int) int {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		t.Fatalf("%s is '%s', must be a number", name, text)
	}
	return n
}
