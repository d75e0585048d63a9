package corpus

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"
)

// maxColumns of a line of YAML: a reviewer reads it without scrolling, and a difference of it shows what changed.
const maxColumns = 200

// TestColumns looks at all YAML of the tests, the goldens of the corpus among them.
func TestColumns(t *testing.T) {
	t.Parallel()
	files := 0
	err := filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".yaml" {
			return err
		}
		raw, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		files++
		for i, line := range strings.Split(string(raw), "\n") {
			if columns := utf8.RuneCountInString(line); columns > maxColumns {
				t.Errorf("%s:%d has %d columns, more than %d: break it", path, i+1, columns, maxColumns)
			}
		}
		return nil
	})
	if err != nil || files < 500 {
		t.Errorf("%d files were looked at: %v", files, err)
	}
}
