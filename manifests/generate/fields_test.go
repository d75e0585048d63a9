package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestFieldsOfHostProfiles: the documentation has every field as its type describes it, and every field is described.
func TestFieldsOfHostProfiles(t *testing.T) {
	const documentation, definition = "../../docs/reference/host-profiles.md", "../crds/hostprofiles/hostprofiles.yaml"
	is, err := os.ReadFile(documentation)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "host-profiles.md")
	head, table, _ := strings.Cut(string(is), fieldsMark)
	if err := os.WriteFile(file, []byte(head+fieldsMark), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := writeFields(definition, file); err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(is)); diff != "" {
		t.Errorf("%s is out of date; run 'make manifests': -generated +checked in\n%s", documentation, diff)
	}
	lines := strings.Split(strings.TrimSpace(table), "\n")[2:]
	for _, line := range lines {
		switch cells := strings.Split(line, " | "); {
		case len(cells) != 3 || strings.Trim(cells[2], " |") == "":
			t.Errorf("a field without a meaning: %s", line)
		case !strings.Contains(line, "Domain: ") && !strings.Contains(line, "Selector`") && !strings.Contains(line, "`priority`"):
			t.Errorf("a field without its element: %s", line)
		}
	}
	if len(lines) < 90 {
		t.Errorf("%d fields, want all", len(lines))
	}
	if err := os.WriteFile(file, []byte(head), 0o600); err != nil {
		t.Fatal(err)
	}
	if writeFields(definition, file) == nil {
		t.Error("a document without the mark is written")
	}
}
