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

// Files that a start writes exist completely or not at all, even if the launcher dies, and only their owner may read them. No file is written in place,
// because QEMU may have it open.

// file describes a file of a VMI's own, which ensure writes.
type file struct {
	path string
	// content is the content of a file that each start writes.
	content []byte
	// create writes the draft of a file that the guest changes later. It is called only if the file does not exist.
	create func(ctx context.Context, draft string) error
}

// ensureFile writes the file. It does nothing for the zero value.
func (f file) ensureFile(ctx context.Context) error {
	switch {
	case f.path == "":
		return nil
	case f.create != nil:
		return createOnce(f.path, func(draft string) error { return f.create(ctx, draft) })
	}
	return writeIfChanged(f.path, f.content)
}

// replaceFile renames a draft that fill writes to a file. A process that has the old file open keeps the old file.
func replaceFile(file string, fill func(draft string) error) error {
	return nameDraft(file, fill, os.Rename)
}

// createOnce creates a file unless it exists.
func createOnce(file string, fill func(draft string) error) error {
	if _, err := os.Lstat(file); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	err := nameDraft(file, fill, os.Link) // fails if the file exists
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}

// nameDraft fills a draft beside the file, syncs it, and gives it the file's name. A crash leaves the draft, which is never read.
func nameDraft(file string, fill func(draft string) error, name func(from, to string) error) error {
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

// ReadFile reads a file of the VMI's own folder. If the file does not exist, the error is fs.ErrNotExist.
func (h *BareMachine) ReadFile(vmi *v1.VirtualMachineInstance, name string) ([]byte, error) {
	return os.ReadFile(filepath.Join(h.Folder(vmi), name))
}

// WriteFile writes a file into the VMI's own folder. Forget removes the folder.
func (b Bound) WriteFile(name string, content []byte) error {
	return writeIfChanged(filepath.Join(b.folder, name), content)
}

// WriteFile writes a file into the own folder of a VMI before Bind. Forget removes the folder.
func (h *BareMachine) WriteFile(vmi *v1.VirtualMachineInstance, name string, content []byte) error {
	if err := os.MkdirAll(h.Folder(vmi), 0o700); err != nil { // Bind gives QEMU access
		return err
	}
	return writeIfChanged(filepath.Join(h.Folder(vmi), name), content)
}

// writeIfChanged replaces a file, unless it has that content already.
func writeIfChanged(file string, content []byte) error {
	if have, err := os.ReadFile(file); err == nil && bytes.Equal(have, content) {
		return nil
	}
	return replaceFile(file, func(draft string) error { return os.WriteFile(draft, content, 0o600) })
}
