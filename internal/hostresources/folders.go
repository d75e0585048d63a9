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

// Prepare creates the folders that the launcher writes to. It returns an error if a folder would give a tenant access to files of others.
func (f Folders) Prepare() error {
	keys, claims := folder{"--tpm-keys", f.TPMKeys}, folder{"--claims", f.Claims}
	if err := checkDisjoint([]folder{{"--volume-root", f.VolumeRoot}, claims, {"--state", f.State}, keys, {"--tpm-states", f.TPMStates}}); err != nil {
		return err
	}
	// QEMU, as whatever user, passes through this folder. The folders of VMIs in it are closed.
	if err := os.MkdirAll(f.State, 0o711); err != nil {
		return fmt.Errorf("--state: %w", err)
	}
	var errs []error
	if keys.dir != "" {
		errs = append(errs, os.MkdirAll(keys.dir, 0o700), checkPrivate(keys))
	}
	if claims.dir != "" {
		errs = append(errs, checkPrivate(claims))
	}
	return errors.Join(errs...)
}

// folder is a folder and its flag.
type folder struct{ name, dir string }

// checkDisjoint returns an error if two folders are the same, or one is inside another: every tenant would get access to disks or keys. Links are resolved
// before the comparison, because two paths may lead to one folder.
func checkDisjoint(folders []folder) error {
	var errs []error
	for i, a := range folders {
		for _, b := range folders[:i] {
			if a.dir == "" || b.dir == "" {
				continue
			}
			x, err := resolvePath(a.dir)
			if err != nil {
				return fmt.Errorf("%s: %w", a.name, err)
			}
			y, err := resolvePath(b.dir)
			if err != nil {
				return fmt.Errorf("%s: %w", b.name, err)
			}
			if x == y || isInside(x, y) || isInside(y, x) {
				errs = append(errs, fmt.Errorf("%s '%s' and %s '%s' overlap; neither may be inside the other", b.name, b.dir, a.name, a.dir))
			}
		}
	}
	return errors.Join(errs...)
}

// isInside reports whether a clean path is inside a folder.
func isInside(file, dir string) bool {
	return strings.HasPrefix(file, strings.TrimSuffix(dir, "/")+"/")
}

// resolvePath returns the absolute path with all links resolved, also of a folder that does not exist yet.
func resolvePath(dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	real, err := filepath.EvalSymlinks(dir)
	if !errors.Is(err, fs.ErrNotExist) {
		return real, err
	}
	parent, err := resolvePath(filepath.Dir(dir))
	return filepath.Join(parent, filepath.Base(dir)), err
}

// checkPrivate returns an error if users other than its owner may open a folder of keys.
func checkPrivate(f folder) error {
	info, err := os.Stat(f.dir)
	if err != nil {
		return fmt.Errorf("%s: %w", f.name, err)
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		return fmt.Errorf("%s '%s' contains keys and has mode %04o; it must be 0700", f.name, f.dir, mode)
	}
	return nil
}
