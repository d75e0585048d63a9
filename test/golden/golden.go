// Package golden compares what a test makes with the files that hold what it made when somebody last read them. With
// GOLDEN=rewrite ('make golden') it writes these files instead.
package golden

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Rewrite reports whether goldens are to be written, not compared.
var Rewrite = os.Getenv("GOLDEN") == "rewrite"

// Compare compares a text with its golden. A missing golden counts as empty.
func Compare(t testing.TB, path, got string) {
	t.Helper()
	want, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	switch {
	case got == string(want):
	case Rewrite:
		write(t, path, got)
	default:
		t.Errorf("%s differs; 'make golden' writes it again, read every difference (-golden +now):\n%s", path, cmp.Diff(string(want), got))
	}
}

func write(t testing.TB, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// Orphans fails for files of a folder that are neither goldens of a test nor its inputs.
func Orphans(t testing.TB, dir string, goldens map[string]string, inputs ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if _, wanted := goldens[entry.Name()]; wanted || slices.Contains(inputs, entry.Name()) {
			continue
		}
		path := filepath.Join(dir, entry.Name())
		if !Rewrite {
			t.Errorf("%s: nothing leads to this file; 'make golden' removes it", path)
		} else if err := os.Remove(path); err != nil {
			t.Error(err)
		}
	}
}
