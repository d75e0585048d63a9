package main

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestVersions: Kiln answers the kept cases as each version of KubeVirt, except for the listed deviations.
func TestVersions(t *testing.T) {
	t.Chdir("../..") // where the schemas are
	for _, release := range releases {
		t.Run(release, func(t *testing.T) {
			tallies, err := tallyVersion(kept, release)
			if err != nil {
				t.Fatal(err)
			}
			for name, counted := range tallies {
				t.Logf("%s: %d of %d agree, %d listed deviations, %d unexplained", name, counted.agreed, counted.total,
					counted.total-counted.agreed-counted.unexplained, counted.unexplained)
				for kind, n := range counted.kinds {
					t.Errorf("%s: %d times: %s", name, n, counted.example[kind])
				}
				if counted.total < 500 || counted.agreed < counted.total*4/5 {
					t.Errorf("%s: %d of %d agree: too few to tell anything", name, counted.agreed, counted.total)
				}
			}
			if len(tallies) != 3 {
				t.Errorf("%d corpora are kept", len(tallies))
			}
		})
	}
}

// TestVersionsDiffer: as another version, Kiln does not agree: the answers show what is different between versions.
func TestVersionsDiffer(t *testing.T) {
	t.Chdir("../..")
	newest := releases[len(releases)-1]
	for _, release := range releases[:len(releases)-1] {
		cases, err := readVersion(kept, release)
		if err != nil {
			t.Fatal(err)
		}
		now, err := readVersion(kept, newest)
		if err != nil {
			t.Fatal(err)
		}
		verdicts := 0
		for i := range cases {
			if cases[i].Expect.Allowed != now[i].Expect.Allowed {
				verdicts++
			}
		}
		t.Logf("%s: %d of %d verdicts are other than the verdicts of %s", release, verdicts, len(cases), newest)
		if verdicts < 20 {
			t.Errorf("%s: %d verdicts are others", release, verdicts)
		}
	}
}

// TestWithoutFields: what an older API server drops is gone, and nothing else.
func TestWithoutFields(t *testing.T) {
	object := `{"spec":{"a":1,"list":[{"name":"x","new":{"deep":1}},{"new":2}],"new":[1]}}`
	got, err := withoutFields(json.RawMessage(object), []string{"spec.list[0].new", "spec.list[1].new", "spec.new", "spec.none.here"})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(`{"spec":{"a":1,"list":[{"name":"x"},{}]}}`, string(got)); diff != "" {
		t.Error(diff)
	}
	if same, err := withoutFields(json.RawMessage(object), nil); err != nil || string(same) != object {
		t.Errorf("nothing is dropped: %s, %v", same, err)
	}
}
