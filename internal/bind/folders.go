package bind

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Folders are those that the administrator of a bare machine names, each by the flag of its name. An empty one is not used.
type Folders struct{ VolumeRoot, Claims, State, TPMKeys, TPMStates string }

// Prepare refuses folders through which a tenant could reach what is not his, and makes those that the launcher fills.
func (f Folders) Prepare() error {
	keys, claims := folder{"--tpm-keys", f.TPMKeys}, folder{"--claims", f.Claims}
	if err := apart([]folder{{"--volume-root", f.VolumeRoot}, claims, {"--state", f.State}, keys, {"--tpm-states", f.TPMStates}}); err != nil {
		return err
	}
	// QEMU passes through, whatever user it runs as. Guests' folders in it are closed.
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

// folder is one of this machine's, and what a message calls it.
type folder struct{ name, dir string }

// apart refuses folders of which one is, or is in, another: a guest's disk would be in reach of every tenant, or a key.
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
				errs = append(errs, fmt.Errorf("%s '%s' and %s '%s' overlap: each needs a folder outside of the other", b.name, b.dir, a.name, a.dir))
			}
		}
	}
	return errors.Join(errs...)
}

// resolved is an absolute path behind all links. What does not exist yet is made where its parent leads.
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

// private refuses a folder with keys that others than its owner may open.
func private(f folder) error {
	info, err := os.Stat(f.dir)
	if err != nil {
		return fmt.Errorf("%s: %w", f.name, err)
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		return fmt.Errorf("%s '%s' has mode %04o and holds keys: make it 0700", f.name, f.dir, mode)
	}
	return nil
}
