package launch

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// Root is the folder below which a machine serves file volumes. Every access goes through os.Root, so that absolute
// paths, '..' and symbolic links cannot leave it, whatever a manifest says.
type Root struct {
	root *os.Root
	dir  string
}

// OpenRoot opens the folder of --volume-root. An empty dir serves nothing.
func OpenRoot(dir string) (*Root, error) {
	if dir == "" {
		return nil, nil
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return nil, fmt.Errorf("--volume-root: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("--volume-root: %w", err)
	}
	return &Root{root: root, dir: dir}, nil
}

// errNoRoot is what a launcher without --volume-root says to each file volume.
var errNoRoot = errors.New("this launcher serves no files: it was started without --volume-root")

// Below turns an absolute path of a manifest into one relative to the root.
func (r *Root) Below(absolute string) (string, error) {
	if r == nil {
		return "", errNoRoot
	}
	rel, err := filepath.Rel(r.dir, path.Clean(absolute))
	if !path.IsAbs(absolute) || err != nil || !filepath.IsLocal(rel) || rel == "." {
		return "", fmt.Errorf("path '%s' is not below the launcher's --volume-root", absolute)
	}
	return rel, nil
}

// File is the path of an existing regular file or block device below the root.
func (r *Root) File(rel string) (string, fs.FileInfo, error) {
	if r == nil {
		return "", nil, errNoRoot
	}
	file, err := r.root.Open(rel)
	if err != nil {
		return "", nil, r.explain(rel, err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return "", nil, r.explain(rel, err)
	}
	if kind := info.Mode().Type(); kind != 0 && kind&fs.ModeDevice == 0 {
		return "", nil, fmt.Errorf("'%s' is not a regular file or block device", rel)
	}
	// QEMU gets the path behind all links: one that is exchanged later leads nowhere else.
	real, err := filepath.EvalSymlinks(filepath.Join(r.dir, rel))
	if err != nil {
		return "", nil, r.explain(rel, err)
	}
	if !strings.HasPrefix(real, r.dir+string(filepath.Separator)) {
		return "", nil, fmt.Errorf("'%s' leads out of the launcher's --volume-root", rel)
	}
	return real, info, nil
}

// Create makes a sparse file of size bytes below the root, unless it exists.
func (r *Root) Create(rel string, size int64) error {
	if r == nil {
		return errNoRoot
	}
	file, err := r.root.OpenFile(rel, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return r.explain(rel, err)
	}
	defer file.Close()
	return file.Truncate(size)
}

// Glob lists regular files in a folder below the root whose names end in one of the suffixes.
func (r *Root) Glob(dir string, suffixes ...string) ([]string, error) {
	if r == nil {
		return nil, errNoRoot
	}
	entries, err := fs.ReadDir(r.root.FS(), dir)
	if err != nil {
		return nil, r.explain(dir, err)
	}
	var found []string
	for _, entry := range entries {
		for _, suffix := range suffixes {
			if entry.Type().IsRegular() && strings.HasSuffix(entry.Name(), suffix) {
				found = append(found, path.Join(dir, entry.Name()))
			}
		}
	}
	return found, nil
}

// explain says in the user's words why a path cannot be served; it never tells what lies outside the root.
func (r *Root) explain(rel string, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("'%s' does not exist below the launcher's --volume-root", rel)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("'%s' may not be read by the launcher", rel)
	}
	return fmt.Errorf("'%s' cannot be served from the launcher's --volume-root: %w", rel, errors.Unwrap(err))
}
