package hostresources

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	v1 "kubevirt.io/api/core/v1"
)

// Files that a start writes exist completely or not at all, whenever the launcher dies, and only their owner may read them. None is written
// in place: QEMU may have it open.

// file is a file of a VMI's own, described by what finds it necessary and written by write.
type file struct {
	path string
	// content of a file that each start writes.
	content []byte
	// create writes the draft of a file that the guest changes later. It is called once in the life of the VMI.
	create func(ctx context.Context, draft string) error
}

// write writes the file. Of an empty description it writes nothing.
func (f file) write(ctx context.Context) error {
	switch {
	case f.path == "":
		return nil
	case f.create != nil:
		return once(f.path, func(draft string) error { return f.create(ctx, draft) })
	}
	return write(f.path, f.content)
}

// replace writes a file by renaming a draft that fill writes. A process that has the old file open keeps the old file.
func replace(file string, fill func(draft string) error) error {
	return settle(file, fill, os.Rename)
}

// once creates a file unless it exists.
func once(file string, fill func(draft string) error) error {
	if _, err := os.Lstat(file); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	err := settle(file, fill, os.Link) // fails if the file exists
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}

// settle fills a draft beside the file, syncs it, and gives it the file's name. A crash leaves the draft, which
// nothing reads.
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

// ReadFile reads a file of the VMI's own folder. The error is fs.ErrNotExist if there is none.
func (h *BareMachine) ReadFile(vmi *v1.VirtualMachineInstance, name string) ([]byte, error) {
	return os.ReadFile(filepath.Join(h.Folder(vmi), name))
}

// WriteFile writes a file into the VMI's own folder, which Forget removes.
func (b Bound) WriteFile(name string, content []byte) error {
	return write(filepath.Join(b.folder, name), content)
}

// WriteFile writes a file into the own folder of a VMI that is not bound, which Forget removes.
func (h *BareMachine) WriteFile(vmi *v1.VirtualMachineInstance, name string, content []byte) error {
	if err := os.MkdirAll(h.Folder(vmi), 0o700); err != nil { // Bind gives QEMU access
		return err
	}
	return write(filepath.Join(h.Folder(vmi), name), content)
}

// write replaces a file, unless it has that content already.
func write(file string, content []byte) error {
	if have, err := os.ReadFile(file); err == nil && bytes.Equal(have, content) {
		return nil
	}
	return replace(file, func(draft string) error { return os.WriteFile(draft, content, 0o600) })
}
