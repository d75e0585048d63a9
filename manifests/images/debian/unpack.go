package debian

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
)

// Wanted reports whether an image contains a path. The last pattern of path.Match that matches the path, or a folder above it, determines the answer: a pattern
// that begins with '!' excludes the path.
func Wanted(patterns []string, name string) bool {
	for _, pattern := range slices.Backward(patterns) {
		pattern, out := strings.CutPrefix(pattern, "!")
		for above := name; above != "."; above = path.Dir(above) {
			if matched, err := path.Match(pattern, above); err == nil && matched {
				return !out
			}
		}
	}
	return false
}

// merged are the folders that are links into /usr since Debian 12. Some packages still have files below these names.
var merged = []string{"bin", "lib", "lib64", "sbin"}

// files has the paths of the wanted files and links of an unpacked package, by their paths in the image.
type files map[string]string

// archive is the archive of a package.
type archive struct {
	Package
	path string
}

// unpackTree fills the folder of a tree.
func (s Set) unpackTree(ctx context.Context, archives []archive, work string) error {
	printProgress("unpacking %d packages", len(archives))
	apart := filepath.Join(work, "packages")
	if err := os.Mkdir(apart, 0o755); err != nil {
		return err
	}
	group, within := errgroup.WithContext(ctx)
	group.SetLimit(4)
	for _, a := range archives {
		group.Go(func() error {
			_, err := runOutput(exec.CommandContext(within, "dpkg-deb", "-x", a.path, filepath.Join(apart, a.Name)))
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	found := map[string]files{}
	for _, a := range archives {
		var err error
		if found[a.Name], err = s.wantedFiles(filepath.Join(apart, a.Name)); err != nil {
			return err
		}
	}
	chosen, err := choosePackages(s.Packages, found)
	if err != nil {
		return err
	}
	root := filepath.Join(work, "root")
	for _, name := range chosen {
		if err := moveFiles(found[name], root); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return errors.Join(s.addOwnFiles(root, archives, chosen), os.RemoveAll(apart))
}

// wantedFiles returns the files of an unpacked package that the image may contain.
func (s Set) wantedFiles(dir string) (files, error) {
	out := files{}
	err := filepath.WalkDir(dir, func(found string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		inside, err := filepath.Rel(dir, found)
		if err != nil {
			return err
		}
		if first, _, _ := strings.Cut(inside, "/"); slices.Contains(merged, first) {
			inside = path.Join("usr", inside)
		}
		if Wanted(s.Files, inside) {
			out[inside] = found
		}
		return nil
	})
	return out, err
}

// moveFiles moves files of a package into the tree. It fails if another package has the same file.
func moveFiles(from files, root string) error {
	for _, name := range slices.Sorted(maps.Keys(from)) {
		to := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		if _, err := os.Lstat(to); err == nil {
			return fmt.Errorf("another package has '%s' too", name)
		}
		if err := os.Rename(from[name], to); err != nil {
			return err
		}
	}
	return nil
}

// addOwnFiles adds files that belong to no package: links of merged folders, mount points, texts, and the list of packages.
func (s Set) addOwnFiles(root string, archives []archive, chosen []string) error {
	var kept []Package
	for _, a := range archives {
		if slices.Contains(chosen, a.Name) {
			kept = append(kept, a.Package)
		}
	}
	for _, name := range merged {
		if _, err := os.Stat(filepath.Join(root, "usr", name)); err != nil {
			continue
		}
		if err := os.Symlink("usr/"+name, filepath.Join(root, name)); err != nil {
			return err
		}
	}
	for _, name := range []string{"dev", "proc", "run", "sys", "tmp"} {
		if err := os.MkdirAll(filepath.Join(root, name), 0o755); err != nil {
			return err
		}
	}
	texts := map[string]string{List: listPackages(kept)}
	maps.Copy(texts, s.Texts)
	for name, text := range texts {
		if err := writeFile(filepath.Join(root, name), text); err != nil {
			return err
		}
	}
	return setFolderModes(root)
}

// writeFile writes a file that all users may read, independent of the umask of this process.
func writeFile(file, text string) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return errors.Join(os.WriteFile(file, []byte(text), 0o644), os.Chmod(file, 0o644))
}

// setFolderModes sets the modes of all folders, because they depend on the umask of this process.
func setFolderModes(root string) error {
	err := filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return err
		}
		return os.Chmod(name, 0o755)
	})
	return errors.Join(err, os.Chmod(filepath.Join(root, "tmp"), fs.ModeSticky|0o777))
}
