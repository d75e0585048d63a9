package launch

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// Files that a start writes are there as a whole or not at all, whenever the launcher dies, and are for their owner alone. None is ever
// written over: QEMU may have it open.

// replace puts a file in the place of the one that is there. fill writes a draft; who has the old file open keeps that.
func replace(file string, fill func(draft string) error) error {
	return settle(file, fill, os.Rename)
}

// once makes a file unless it is there.
func once(file string, fill func(draft string) error) error {
	if _, err := os.Lstat(file); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	err := settle(file, fill, os.Link) // fails where a file is
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}

func settle(file string, fill func(draft string) error, name func(from, to string) error) error {
	draft, err := os.CreateTemp(filepath.Dir(file), ".draft-") // of mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(draft.Name())
	err = fill(draft.Name())
	if err := errors.Join(err, draft.Sync(), draft.Close()); err != nil {
		return err
	}
	return name(draft.Name(), file)
}

// write replaces a file, unless it holds just that content.
func write(file string, content []byte) error {
	if have, err := os.ReadFile(file); err == nil && bytes.Equal(have, content) {
		return nil
	}
	return replace(file, func(draft string) error { return os.WriteFile(draft, content, 0o600) })
}
