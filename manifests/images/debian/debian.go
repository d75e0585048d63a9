// Package debian takes files from packages of Debian 12 for images: apt resolves, downloads and verifies the packages, and nothing is installed. No maintainer
// script runs, and the lists, settings and packages of this machine do not change.
package debian

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Release is the release of Debian from which images are made.
const Release = "bookworm"

// Set describes the files that an image takes from Debian.
type Set struct {
	// Architecture is amd64 or arm64, as in Go.
	Architecture string
	// Packages are the packages with programs and data of the image. Of their dependencies, the image gets only packages with libraries that the
	// programs load: the others are for maintainer scripts and administrators.
	Packages []string
	// Backports are the source packages that are taken from the backports suite of the release.
	Backports []string
	// Files are patterns of paths. See Wanted.
	Files []string
	// Texts are files by their paths that replace files of packages, such as files that maintainer scripts would write.
	Texts map[string]string
}

// Tree is an unpacked set.
type Tree struct {
	// Root is the folder with the files. It is shared, so callers must not change it.
	Root string
	// Digest is a digest of the set and of the versions of all packages.
	Digest string
}

// List is the path of the file in a tree that lists its packages.
const List = "usr/share/kiln/packages"

// Unpack returns the tree of a set. It keeps the tree in the folder cache, and downloads and unpacks packages only if their versions have changed.
func (s Set) Unpack(ctx context.Context, cache string) (tree Tree, err error) {
	cache, err = filepath.Abs(cache)
	if err != nil {
		return tree, err
	}
	unlock, err := lockFolder(ctx, cache)
	if err != nil {
		return tree, err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	// Remove the folders that killed processes have left. Trees of other versions are kept, because another process may be reading them.
	if err := removeUnfinished(filepath.Join(cache, s.Architecture)); err != nil {
		return tree, err
	}
	a, err := s.prepareApt(ctx, filepath.Join(cache, "apt-"+s.Architecture))
	if err != nil {
		return tree, err
	}
	resolved, err := a.resolvePackages(ctx, s.Packages)
	if err != nil {
		return tree, err
	}
	if tree.Digest, err = s.digestOf(resolved); err != nil {
		return tree, err
	}
	place := filepath.Join(cache, s.Architecture+"-"+tree.Digest[:16])
	tree.Root = filepath.Join(place, "root")
	if _, err := os.Stat(place); err == nil {
		return tree, nil
	}
	if err := a.downloadArchives(ctx, resolved); err != nil {
		return tree, err
	}
	if err := CompleteFolder(place, func(work string) error { return s.unpackTree(ctx, a.downloadedArchives(resolved), work) }); err != nil {
		return tree, err
	}
	_, err = a.runAptGet(ctx, "clean") // the archives are not read again
	return tree, err
}

// digestOf returns a digest of the versions of all packages and of the set.
func (s Set) digestOf(resolved []Package) (string, error) {
	raw, err := json.Marshal(struct {
		Layout   int // of the cache
		Set      Set
		Packages []Package
	}{1, s, resolved})
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:]), nil
}

// lockFolder locks a folder for this process until it is released. The kernel releases the lock if the process ends.
func lockFolder(ctx context.Context, dir string) (release func() error, err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	for {
		err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return file.Close, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return nil, errors.Join(err, file.Close())
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(fmt.Errorf("another process uses '%s': %w", dir, ctx.Err()), file.Close())
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// CompleteFolder creates the folder place only when fill has succeeded: fill writes into a temporary folder, which is then renamed. If another process has
// created the folder meanwhile, CompleteFolder keeps it.
func CompleteFolder(place string, fill func(work string) error) (err error) {
	work, err := os.MkdirTemp(filepath.Dir(place), unfinished+filepath.Base(place)+"-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	inside := filepath.Join(work, "complete")
	if err := os.Mkdir(inside, 0o755); err != nil {
		return err
	}
	if err := fill(inside); err != nil {
		return err
	}
	if err := os.Rename(inside, place); !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

// unfinished is the beginning of the names of CompleteFolder's temporary folders.
const unfinished = ".work-"

// removeUnfinished removes the temporary folders of CompleteFolder for paths that begin with place. Killed processes have left them.
func removeUnfinished(place string) error {
	left, err := filepath.Glob(filepath.Join(filepath.Dir(place), unfinished+filepath.Base(place)+"-*"))
	for _, dir := range left {
		err = errors.Join(err, os.RemoveAll(dir))
	}
	return err
}

// printProgress prints a step that takes long to standard error.
func printProgress(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "images: "+format+"\n", args...)
}

// listPackages returns the text of the file List.
func listPackages(packages []Package) string {
	var out strings.Builder
	for _, p := range slices.SortedFunc(slices.Values(packages), func(a, b Package) int { return strings.Compare(a.Name, b.Name) }) {
		fmt.Fprintf(&out, "%s %s\n", p.Name, p.Version)
	}
	return out.String()
}
