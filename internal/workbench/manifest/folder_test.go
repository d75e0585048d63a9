package manifest

import (
	"errors"
	"io"
	"path/filepath"
	"strings"
	"testing"
)

// endless is a reader without an end.
type endless struct{ read int }

func (e *endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = '#'
	}
	e.read += len(p)
	return len(p), nil
}

func TestEndlessCatalog(t *testing.T) {
	from := &endless{}
	files, err := ReadFolder("-", from)
	if err != nil || len(files) != 1 || !errors.Is(files[0].Fault, errTooLarge) || from.read > 2*maxFolderBytes {
		t.Errorf("read %d bytes: %v %v", from.read, files, err)
	}
	rest := int64(3)
	if got := readWithin("a", strings.NewReader("abc"), &rest); got.Fault != nil || rest != 0 {
		t.Errorf("what just fits is refused: %v", got.Fault)
	}
	if got := readWithin("a", io.Reader(strings.NewReader("a")), &rest); !errors.Is(got.Fault, errTooLarge) {
		t.Errorf("the bound does not count all files together: %v", got.Fault)
	}
	for _, name := range []string{filepath.Join(t.TempDir(), "nowhere"), "/dev/null"} {
		if _, err := ReadFolder(name, nil); err == nil {
			t.Errorf("%s is read", name)
		}
	}
}
