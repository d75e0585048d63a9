// Package nightly tells tests whether 'make nightly' runs them.
package nightly

import (
	"os"
	"testing"
)

// Only skips a test that takes long and proves more of what a shorter one proves, unless NIGHTLY is set. test/skipped.sh names what was skipped.
func Only(t testing.TB) {
	t.Helper()
	if os.Getenv("NIGHTLY") == "" {
		t.Skip("only 'make nightly' runs it: NIGHTLY is not set")
	}
}
