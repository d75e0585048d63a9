package hostresources

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// TestWholeFiles: a file is there as a whole or not at all, and no draft stays.
func TestWholeFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	fills := func(text string) func(string) error {
		return func(draft string) error { return os.WriteFile(draft, []byte(text), 0o600) }
	}
	dies := func(draft string) error {
		return errors.Join(os.WriteFile(draft, []byte("half"), 0o600), errors.New("the server is gone"))
	}
	for _, step := range []struct {
		why  string
		make func() error
		fail bool
		want string
	}{
		{"the first writer dies", func() error { return createOnce(file, dies) }, true, ""},
		{"the second does not", func() error { return createOnce(file, fills("first")) }, false, "first"},
		{"once is once", func() error { return createOnce(file, fills("second")) }, false, "first"},
		{"nobody even begins", func() error { return createOnce(file, dies) }, false, "first"},
		{"another content", func() error { return writeIfChanged(file, []byte("third")) }, false, "third"},
		{"a failed replacement", func() error { return replaceFile(file, dies) }, true, "third"},
	} {
		if err := step.make(); (err != nil) != step.fail {
			t.Errorf("%s: %v", step.why, err)
		}
		raw, err := os.ReadFile(file)
		if string(raw) != step.want || (err == nil) != (step.want != "") {
			t.Errorf("%s: the file is '%s' (%v), want '%s'", step.why, raw, err, step.want)
		}
		if left := entries(t, dir); len(left) > 1 {
			t.Errorf("%s: in the folder are %q", step.why, left)
		}
	}
}
