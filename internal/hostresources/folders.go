package hostresources

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Folders are the folders of a bare machine, each set by the flag of its name. An empty one is not used.
type Folders struct{ VolumeRoot, Claims, State, TPMKeys, TPMStates string }

// Prepare refuses folders that would give a tenant access to files of others, and creates the folders that the launcher writes to.
func (f Folders) Prepare() error {
	keys, claims := folder{"--tpm-keys", f.TPMKeys}, folder{"--claims", f.Claims}
	if err := apart([]folder{{"--volume-root", f.VolumeRoot}, claims, {"--state", f.State}, keys, {"--tpm-states", f.TPMStates}}); err != nil {
		return err
	}
	// QEMU passes through, whatever user it runs as. The folders of VMIs in it are closed.
	if err := os.MkdirAll(f.State, 0o711); err != nil {
		return fmt.Errorf("--state: %w", err)
	}
	var errs []error
	if keys.dir != "" {
		errs = append(errs, os.MkdirAll(keys.dir, 0o700), private(keys))
	}
	if claims.dir != "" {
		errs = append(errs, private(claims))
	}
	return errors.Join(errs...)
}

// folder is a folder and its flag.
type folder struct{ name, dir string }

// apart refuses a folder that is, or is in, another: it would give every tenant access to disks or keys. Links are resolved before the comparison: two
// paths may be one folder.
func apart(folders []folder) error {
	var errs []error
	for i, a := range folders {
		for _, b := range folders[:i] {
			if a.dir == "" || b.dir == "" {
				continue
			}
			x, err := resolved(a.dir)
			if err != nil {
				return fmt.Errorf("%s: %w", a.name, err)
			}
			y, err := resolved(b.dir)
			if err != nil {
				return fmt.Errorf("%s: %w", b.name, err)
			}
			if x == y || below(x, y) || below(y, x) {
				errs = append(errs, fmt.Errorf("%s '%s' and %s '%s' overlap; neither may be inside the other", b.name, b.dir, a.name, a.dir))
			}
		}
	}
	return errors.Join(errs...)
}

// below reports whether a clean path is inside a folder.
func below(file, dir string) bool {
	return strings.HasPrefix(file, strings.TrimSuffix(dir, "/")+"/")
}

// resolved returns the absolute path with all links resolved, also of a folder that does not exist yet.
func resolved(dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	real, err := filepath.EvalSymlinks(dir)
	if !errors.Is(err, fs.ErrNotExist) {
		return real, err
	}
	parent, err := resolved(filepath.Dir(dir))
	return filepath.Join(parent, filepath.Base(dir)), err
}

// private refuses a folder of keys that users other than its owner may open.
func private(f folder) error {
	info, err := os.Stat(f.dir)
	if err != nil {
		return fmt.Errorf("%s: %w", f.name, err)
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		return fmt.Errorf("%s '%s' contains keys and has mode %04o; it must be 0700", f.name, f.dir, mode)
	}
	return nil
}
