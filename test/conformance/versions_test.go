package main

import (
	"cmp"
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/pkg/config"
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

// TestDeviationsNameTheirVersions: the versions in which a deviation explains a kept answer are those that docs/reference/deviations.md names, or all.
func TestDeviationsNameTheirVersions(t *testing.T) {
	t.Chdir("../..")
	explained := map[string][]string{}
	for _, release := range releases {
		tallies, err := tallyVersion(kept, release)
		if err != nil {
			t.Fatal(err)
		}
		version, err := config.ParseVersion(release)
		if err != nil {
			t.Fatal(err)
		}
		for _, counted := range tallies {
			for name := range counted.listed {
				if text := strings.TrimPrefix(version.String(), "v"); !slices.Contains(explained[name], text) {
					explained[name] = append(explained[name], text)
				}
			}
		}
	}
	page, err := os.ReadFile("docs/reference/deviations.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string]string{}
	for _, entry := range regexp.MustCompile(`(?m)^- \*\*(.+?)\.?\*\*(?: \(([\d., ]+)\))?`).FindAllStringSubmatch(string(page), -1) {
		documented[entry[1]] = cmp.Or(entry[2], "1.7, 1.8, 1.9")
	}
	bounded := 0
	for name, versions := range explained {
		if strings.Join(versions, ", ") != documented[name] {
			t.Errorf("'%s' explains answers of %v, and docs/reference/deviations.md names '%s'", name, versions, documented[name])
		}
		if len(versions) < len(releases) {
			bounded++
		}
	}
	if len(explained) < 30 || bounded < 5 {
		t.Errorf("%d deviations explain answers, %d of them of some versions only: too few to tell anything", len(explained), bounded)
	}
}

// TestWithoutFields: what an older API server drops is gone, and nothing else.
func TestWithoutFields(t *testing.T) {
	object := `{"spec":{"a":1,"list":[{"name":"x","new":{"deep":1}},{"new":2}],"new":[1]}}`
	got, err := withoutFields(json.RawMessage(object), []string{"spec.list[0].new", "spec.list[1].new", "spec.new", "spec.none.here"})
	if err != nil {
		t.Fatal(err)
	}
	if diff := gocmp.Diff(`{"spec":{"a":1,"list":[{"name":"x"},{}]}}`, string(got)); diff != "" {
		t.Error(diff)
	}
	if same, err := withoutFields(json.RawMessage(object), nil); err != nil || string(same) != object {
		t.Errorf("nothing is dropped: %s, %v", same, err)
	}
}
