package cli

import (
	"cmp"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/kilnvm/kiln/test/samples"
	"sigs.k8s.io/yaml"
)

// entry is an object of a catalog, and its text.
type entry struct {
	Kind     string
	Metadata struct{ Name string }
	Spec     map[string]any
	text     string
}

// entries are the objects of a kind in a catalog.
func entries(t *testing.T, path, kind string) (found []entry) {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, document := range strings.Split("\n"+string(raw), "\n---\n") {
		e := entry{text: document + "\n"}
		if err := yaml.Unmarshal([]byte(document), &e); err != nil {
			t.Fatal(err)
		}
		if e.Kind == kind {
			found = append(found, e)
		}
	}
	return found
}

// usual are instancetypes that fit most preferences, the last one first.
var usual = []string{"u1.8xlarge", "u1.2xlarge", "u1.large", "samples.large"}

// TestNotAppliedOfCatalogs is TestNotAppliedIfNothingChanges for each preference of our catalog and of the published one, on a size
// that fits it.
func TestNotAppliedOfCatalogs(t *testing.T) {
	t.Parallel()
	for _, set := range samples.Sets(t) {
		t.Run(set.Name, func(t *testing.T) {
			t.Parallel()
			notAppliedOf(t, set)
		})
	}
}

func notAppliedOf(t *testing.T, set samples.Set) {
	preferences := entries(t, set.Path("catalog", "cluster-preferences.yaml"), "VirtualMachineClusterPreference")
	sizes := entries(t, set.Path("catalog", "cluster-instancetypes.yaml"), "VirtualMachineClusterInstancetype")
	slices.SortStableFunc(sizes, func(a, b entry) int {
		return cmp.Compare(-slices.Index(usual, a.Metadata.Name), -slices.Index(usual, b.Metadata.Name))
	})
	least := 15
	if set.Published() {
		least = 50
	}
	if len(preferences) < least || len(sizes) < least {
		t.Fatalf("%d preferences and %d instancetypes: the test looks at the wrong files", len(preferences), len(sizes))
	}
	for _, p := range preferences {
		t.Run(p.Metadata.Name, func(t *testing.T) {
			t.Parallel()
			c, found := fitting(t, candidate{preference: p.Spec, guest: "sparse"}, sizes)
			if !found {
				t.Fatal("it fits no instancetype of the catalog")
			}
			applied, left := tried(t, c)
			t.Logf("%d fields applied, %d not", applied, left)
			if applied == 0 { // each says at least what bus and model disks and interfaces have
				t.Error("no field makes a difference")
			}
		})
	}
}

// fitting is a candidate on the first instancetype with which it can start, on the architecture that its preference needs.
func fitting(t *testing.T, c candidate, sizes []entry) (candidate, bool) {
	t.Helper()
	if demands, ok := c.preference["requirements"].(map[string]any); ok {
		c.where, _ = demands["architecture"].(string)
	}
	for _, size := range sizes {
		c.size, c.catalog = size.Metadata.Name, size.text
		_, file := write(t, c.catalog, c.manifest(t, "whole", c.preference))
		if got := call(t, "", "validate", "-f", file); got.err == nil {
			return c, true
		}
	}
	return c, false
}
