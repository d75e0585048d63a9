package golden

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bluekeyes/go-gitdiff/gitdiff"
	"github.com/rogpeppe/go-internal/diff"
)

// Frontend is the golden of what the guest sees. The complete domains beside it are kept as their differences to it, since
// they repeat all of it.
const Frontend = "frontend.xml"

// Difference returns a complete domain as a unified diff to its frontend: what stage 3 adds. 'patch -o - frontend.xml domain.diff' prints the domain.
func Difference(frontend, domain string) string {
	text := string(diff.Diff(Frontend, []byte(frontend), "domain.xml", []byte(domain)))
	_, unified, _ := strings.Cut(text, "\n") // above it stands a line for those who compare folders
	return unified
}

// Expand is Difference's inverse. It fails where the difference is one to another frontend: a line of it is looked for only
// where the difference says that it is.
func Expand(frontend, difference string) (string, error) {
	files, _, err := gitdiff.Parse(strings.NewReader(difference))
	if err != nil {
		return "", err
	}
	if len(files) != 1 {
		return "", fmt.Errorf("%d files in a difference of one", len(files))
	}
	var domain bytes.Buffer
	if err := gitdiff.Apply(&domain, strings.NewReader(frontend), files[0]); err != nil {
		return "", err
	}
	return domain.String(), nil
}

// CompareDomain fails if the difference at a path, applied to the frontend in its folder, is not the domain.
func CompareDomain(t testing.TB, path, domain string) {
	t.Helper()
	frontend, err := os.ReadFile(filepath.Join(filepath.Dir(path), Frontend))
	if err != nil {
		t.Fatal(err)
	}
	difference, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	kept, err := Expand(string(frontend), string(difference))
	if err != nil {
		t.Errorf("%s cannot be applied to the frontend beside it: %v", path, err)
	} else if kept != domain {
		t.Errorf("%s is another domain:\n%s", path, diff.Diff("golden", []byte(kept), "now", []byte(domain)))
	}
}
