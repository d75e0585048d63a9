package main

import (
	"os"
	"regexp"
	"slices"
	"testing"
)

// maxDeviations is how many distinct deviations of verdicts there may be: beyond that, agreement is the easier thing to know.
const maxDeviations = 60

// Every deviation by which a recorded verdict is explained is an entry of docs/deviations.md under the same name.
func TestDeviationsAreDocumented(t *testing.T) {
	raw, err := os.ReadFile("../../docs/deviations.md")
	if err != nil {
		t.Fatal(err)
	}
	var documented []string
	for _, entry := range regexp.MustCompile(`(?m)^- \*\*(.+?)\.?\*\*`).FindAllStringSubmatch(string(raw), -1) {
		documented = append(documented, entry[1])
	}
	names := []string{crashes, statusOnCreate}
	for _, d := range deviations {
		names = append(names, d.name)
	}
	if len(names) > maxDeviations {
		t.Errorf("%d deviations, at most %d", len(names), maxDeviations)
	}
	for _, name := range names {
		if !slices.Contains(documented, name) {
			t.Errorf("deviation '%s' is not in docs/deviations.md", name)
		}
	}
}
