// Package samples finds manifests that tests take whole: a catalog of instancetypes and preferences, and examples of VMs and VMIs. There are
// two sets of one layout. Ours lies beside this file. The published one is KubeVirt's own, which is not part of this repository;
// where it is, tests take both.
//
//	catalog/cluster-instancetypes.yaml, catalog/cluster-preferences.yaml
//	examples/*.yaml
package samples

import (
	"os"
	"path/filepath"
	"testing"
)

// Set is a folder of that layout.
type Set struct {
	// Name is "ours" or "published".
	Name string
	dir  string
}

// Published reports whether the set contains KubeVirt's published manifests.
func (s Set) Published() bool { return s.Name == "published" }

// Path returns the absolute path of a file or a folder of the set.
func (s Set) Path(parts ...string) string {
	return filepath.Join(append([]string{s.dir}, parts...)...)
}

// Examples returns the files with guests.
func (s Set) Examples(t testing.TB) []string {
	t.Helper()
	files, err := filepath.Glob(s.Path("examples", "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no examples in '%s': %v", s.Path("examples"), err)
	}
	return files
}

// Sets are all that there are here: ours, and the published one where KILN_SHARED names a folder that holds it, or '../shared'
// beside the repository does.
func Sets(t testing.TB) []Set {
	t.Helper()
	sets := []Set{{"ours", filepath.Join(root(t), "test", "samples")}}
	if dir := Shared(t); dir != "" {
		sets = append(sets, Set{"published", dir})
	} else {
		t.Log("the published manifests are not here (KILN_SHARED): ours alone are taken")
	}
	return sets
}

// Shared returns the folder with the published manifests and with the recorded answers of the reference implementation. It is empty if the folder does not
// exist.
func Shared(t testing.TB) string {
	t.Helper()
	dir := os.Getenv("KILN_SHARED")
	if dir == "" {
		dir = filepath.Join(root(t), "..", "shared")
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "catalog")); err != nil {
		return ""
	}
	return dir
}

// Catalog returns the folder with KubeVirt's published catalog. It skips the test if the folder does not exist.
func Catalog(t testing.TB) string {
	t.Helper()
	shared := Shared(t)
	if shared == "" {
		t.Skip("the published catalog is not here: KILN_SHARED names no folder with it, and there is no '../shared/catalog' beside the repository")
	}
	return filepath.Join(shared, "catalog")
}

// root returns the folder of go.mod, which is above the folder of the test. The path of this source file does not lead there, because -trimpath cuts it.
func root(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for ; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
	}
	t.Fatal("no go.mod above the folder of this test")
	return ""
}
