package catalogsource

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/kilnvm/kiln/internal/oci"
)

// WriteFolder writes files into a new folder, or into an empty one. It fails if the folder is not empty. Files are written into a temporary folder, which is
// then renamed, so that an existing folder is complete. The names of the files come from a registry and are not trusted: os.Root keeps all files below the
// folder.
//
// The temporary folder has the same parent, because a rename does not cross file systems. An empty folder of the name is removed before the rename; os.Remove
// fails if somebody has put a file into it meanwhile. MkdirTemp creates folders of mode 0700: hence the Chmod.
func WriteFolder(folder string, files []oci.File) (err error) {
	folder = filepath.Clean(folder)
	if entries, err := os.ReadDir(folder); err == nil && len(entries) > 0 {
		return fmt.Errorf("the folder '%s' is not empty", folder)
	} else if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	part, err := os.MkdirTemp(filepath.Dir(folder), "."+filepath.Base(folder)+".part-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(part)
	root, err := os.OpenRoot(part)
	if err != nil {
		return err
	}
	defer root.Close()
	for _, f := range files {
		name := filepath.FromSlash(f.Name)
		if err := root.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return err
		}
		if err := root.WriteFile(name, f.Content, 0o644); err != nil {
			return err
		}
	}
	if err := os.Remove(folder); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := os.Chmod(part, 0o755); err != nil {
		return err
	}
	return os.Rename(part, folder)
}
