package hostresources

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// Root is a folder whose files guests may get. Every access goes through os.Root: absolute paths, '..' and symbolic links of a manifest or an image cannot
// leave it.
type Root struct {
	root *os.Root
	dir  string
	name string // in messages
}

// OpenRoot opens the folder of --volume-root, below which disks and images are. For an empty dir it returns nil.
func OpenRoot(dir string) (*Root, error) { return openFlagFolder(dir, "--volume-root") }

// OpenClaims opens the folder of --claims. For an empty dir it returns nil.
func OpenClaims(dir string) (*Root, error) { return openFlagFolder(dir, "--claims") }

// openFlagFolder resolves links in the folder's own path, which the administrator wrote. Links below the folder are compared with the resolved path.
func openFlagFolder(dir, flag string) (*Root, error) {
	if dir == "" {
		return nil, nil
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return nil, fmt.Errorf("%s: %w", flag, err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", flag, err)
	}
	return &Root{root: root, dir: dir, name: "the launcher's " + flag}, nil
}

// openMount opens a folder that Kubernetes mounted into the pod of a guest. Messages call it by the name.
func openMount(dir, name string) (*Root, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("%s is not mounted: %w", name, withoutPath(err))
	}
	return &Root{root: root, dir: dir, name: name}, nil
}

// Close closes the folder, whose files stay open.
func (r *Root) Close() { _ = r.root.Close() }

// errNoRoot is the error for each file volume if the launcher runs without --volume-root.
var errNoRoot = errors.New("this launcher serves no files: it was started without --volume-root")

// Below makes an absolute path from a manifest relative to the root. It refuses a path that leads out of the root.
func (r *Root) Below(absolute string) (string, error) {
	if r == nil {
		return "", errNoRoot
	}
	rel, err := filepath.Rel(r.dir, path.Clean(absolute))
	if !path.IsAbs(absolute) || err != nil || !filepath.IsLocal(rel) || rel == "." {
		return "", fmt.Errorf("path '%s' is not below %s", absolute, r.name)
	}
	return rel, nil
}

// File returns the path of an existing regular file or block device below the root, with all links resolved. QEMU gets that path, so that replacing a link
// later has no effect. The file is not opened, because opening a pipe blocks.
func (r *Root) File(rel string) (string, fs.FileInfo, error) {
	if r == nil {
		return "", nil, errNoRoot
	}
	info, err := r.root.Stat(rel)
	if err != nil {
		return "", nil, r.userError(rel, err)
	}
	if kind := info.Mode().Type(); kind != 0 && kind != fs.ModeDevice {
		return "", nil, fmt.Errorf("'%s' is not a regular file or block device", rel)
	}
	real, err := r.resolveLinks(rel)
	return filepath.Join(r.dir, real), info, err
}

// resolveLinks returns the path relative to the root with all links resolved.
func (r *Root) resolveLinks(rel string) (string, error) {
	real, err := filepath.EvalSymlinks(filepath.Join(r.dir, rel))
	if err != nil {
		return "", r.userError(rel, err)
	}
	below, err := filepath.Rel(r.dir, real)
	if err != nil || !filepath.IsLocal(below) {
		return "", fmt.Errorf("'%s' leads out of %s", rel, r.name)
	}
	return below, nil
}

// Create creates a sparse file of size bytes below the root, unless it exists. After an error there is no file.
func (r *Root) Create(rel string, size int64) error {
	if r == nil {
		return errNoRoot
	}
	if _, err := r.root.Lstat(rel); err == nil {
		return nil
	}
	draft := path.Join(path.Dir(rel), ".draft-"+rand.Text())
	file, err := r.root.OpenFile(draft, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return r.userError(path.Dir(rel), err)
	}
	defer r.root.Remove(draft)
	err = file.Truncate(size)
	if closing := file.Close(); err == nil {
		err = closing
	}
	if err != nil {
		return fmt.Errorf("'%s' cannot have %d bytes: %w", rel, size, withoutPath(err))
	}
	if err := r.root.Link(draft, rel); err != nil && !errors.Is(err, fs.ErrExist) {
		return r.userError(rel, err)
	}
	return nil
}

// Glob lists regular files in a folder below the root whose names end in one of the suffixes.
func (r *Root) Glob(dir string, suffixes ...string) ([]string, error) {
	entries, err := fs.ReadDir(r.root.FS(), dir)
	if err != nil {
		return nil, r.userError(dir, err)
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

// maxRead bounds the descriptions and keys that are read, in bytes.
const maxRead = 64 << 10

// Read returns a file below the root, at most maxRead bytes of it.
func (r *Root) Read(rel string) ([]byte, error) { return r.readBounded(rel, maxRead) }

// readBounded returns a file below the root, at most limit bytes of it.
func (r *Root) readBounded(rel string, limit int64) ([]byte, error) {
	if _, _, err := r.File(rel); err != nil {
		return nil, err
	}
	file, err := r.root.Open(rel)
	if err != nil {
		return nil, r.userError(rel, err)
	}
	defer file.Close()
	return io.ReadAll(io.LimitReader(file, limit))
}

// userError returns an error for the user. It never reveals what is outside of the root.
func (r *Root) userError(rel string, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("'%s' does not exist below %s", rel, r.name)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("the launcher may not read '%s'", rel)
	}
	return fmt.Errorf("'%s' cannot be served from %s: %w", rel, r.name, withoutPath(err))
}

// withoutPath returns an error of package os without the path that it begins with.
func withoutPath(err error) error {
	if inner := errors.Unwrap(err); inner != nil {
		return inner
	}
	return err
}
