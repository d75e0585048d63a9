// Package reviewed loads and reviews objects for tests of the packages that compare, migrate and audit what a workbench has reviewed.
package reviewed

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kilnvm/kiln/internal/workbench"
	"github.com/kilnvm/kiln/internal/workbench/manifest"
)

// Load returns the objects of YAML documents, as of one file.
func Load(t testing.TB, documents ...string) manifest.Inputs {
	t.Helper()
	file := filepath.Join(t.TempDir(), "all.yaml")
	if err := os.WriteFile(file, []byte(strings.Join(documents, "---\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	in, err := manifest.Load(manifest.Files{Names: []string{file}})
	if err != nil {
		t.Fatal(err)
	}
	return in
}

// Guest reviews objects and returns the only guest among them. It fails the test if there is another number of guests, or if the guest is refused.
func Guest(t testing.TB, bench *workbench.Bench, in manifest.Inputs) workbench.Reviewed {
	t.Helper()
	all, err := bench.Review(t.Context(), in, nil)
	if err != nil {
		t.Fatal(err)
	}
	all.Objects = slices.DeleteFunc(all.Objects, func(r workbench.Reviewed) bool { return r.Guest == nil })
	if len(all.Objects) != 1 || all.Objects[0].Fault != nil || !all.Objects[0].Verdict.Allowed() {
		t.Fatalf("want one guest, got %+v", all.Objects)
	}
	return all.Objects[0]
}
