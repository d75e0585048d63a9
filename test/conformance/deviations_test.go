package main

import (
	"os"
	"regexp"
	"slices"
	"testing"
)

// How many distinct deviations of verdicts and of objects there may be: beyond that, agreement is the easier thing to know.
const maxVerdicts, maxObjects = 60, 40

// Every deviation by which a recorded answer is explained is an entry of docs/reference/deviations.md under the same name.
func TestDeviationsAreDocumented(t *testing.T) {
	raw, err := os.ReadFile("../../docs/reference/deviations.md")
	if err != nil {
		t.Fatal(err)
	}
	var documented []string
	for _, entry := range regexp.MustCompile(`(?m)^- \*\*(.+?)\.?\*\*`).FindAllStringSubmatch(string(raw), -1) {
		documented = append(documented, entry[1])
	}
	verdicts, objects := []string{crashes, statusOnCreate}, []string{crashes, ceilingConflict, memoryConflicts}
	for _, d := range deviations {
		verdicts = append(verdicts, d.name)
	}
	for _, d := range objectDeviations {
		objects = append(objects, d.name)
	}
	if len(verdicts) > maxVerdicts || len(objects) > maxObjects {
		t.Errorf("%d deviations of verdicts, at most %d; %d of objects, at most %d", len(verdicts), maxVerdicts, len(objects), maxObjects)
	}
	for _, d := range domainDeviations {
		objects = append(objects, d.name)
	}
	for _, name := range append(verdicts, objects...) {
		if !slices.Contains(documented, name) {
			t.Errorf("deviation '%s' is not in docs/reference/deviations.md", name)
		}
	}
}
