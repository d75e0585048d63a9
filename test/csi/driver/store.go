package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// store keeps volumes and snapshots in folders by their kind and ID. Folders are made under another name and renamed when they are whole, so that a driver that
// was killed leaves none in part.
type store struct {
	sync.Mutex
	dir string
}

type kind string

const (
	volumes    kind = "volumes"
	snapshots  kind = "snapshots"
	unfinished      = "unfinished"
)

// item is a volume or a snapshot.
type item struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	// Bytes is its size, which is not enforced for a folder.
	Bytes int64 `json:"bytes"`
	// Block reports whether it is a sparse file, and not a folder.
	Block bool `json:"block"`
	// Source is the ID of the snapshot or volume that its content is a copy of; empty for a volume without content.
	Source  string    `json:"source"`
	Created time.Time `json:"created"`
}

// idOf makes a name an ID, so that the same request is found again, and a name leads to no other folder.
func idOf(name string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(name)))[:32] }

var idForm = regexp.MustCompile(`^[0-9a-f]{32}$`)

// open removes what was not finished.
func (s *store) open() error {
	errs := []error{os.RemoveAll(filepath.Join(s.dir, unfinished))}
	for _, folder := range []string{string(volumes), string(snapshots), unfinished} {
		errs = append(errs, os.MkdirAll(filepath.Join(s.dir, folder), 0o700))
	}
	return errors.Join(errs...)
}

func (s *store) path(of kind, id string) string { return filepath.Join(s.dir, string(of), id) }

// contentPath returns the folder or file that a volume or snapshot holds.
func (s *store) contentPath(of kind, id string) string {
	return filepath.Join(s.path(of, id), "content")
}

// get returns nil if there is no such item.
func (s *store) get(of kind, id string) (*item, error) {
	if !idForm.MatchString(id) {
		return nil, nil
	}
	text, err := os.ReadFile(filepath.Join(s.path(of, id), "item.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	found := &item{}
	return found, json.Unmarshal(text, found)
}

// list returns all items of a kind by their IDs.
func (s *store) list(of kind) (all []*item, err error) {
	entries, err := os.ReadDir(filepath.Join(s.dir, string(of)))
	if err != nil {
		return nil, err
	}
	for _, entry := range entries {
		found, err := s.get(of, entry.Name())
		if err != nil {
			return nil, err
		}
		if found != nil {
			all = append(all, found)
		}
	}
	return all, nil
}

// put makes an item whose content is a copy of a path; of nothing if that is empty.
func (s *store) put(of kind, made *item, from string) (err error) {
	temporary := filepath.Join(s.dir, unfinished, made.ID)
	defer func() { err = errors.Join(err, os.RemoveAll(temporary)) }()
	if err := errors.Join(os.RemoveAll(temporary), os.Mkdir(temporary, 0o700)); err != nil {
		return err
	}
	content := filepath.Join(temporary, "content")
	if from != "" {
		err = duplicateContent(from, content)
	} else if !made.Block {
		err = os.Mkdir(content, 0o755)
	}
	if err == nil && made.Block {
		err = enlargeFile(content, made.Bytes)
	}
	if err != nil {
		return err
	}
	text, err := json.Marshal(made)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(temporary, "item.json"), text, 0o600); err != nil {
		return err
	}
	return os.Rename(temporary, s.path(of, made.ID))
}

// remove does nothing if there is no such item.
func (s *store) remove(of kind, id string) error {
	if !idForm.MatchString(id) {
		return nil
	}
	temporary := filepath.Join(s.dir, unfinished, id)
	if err := os.Rename(s.path(of, id), temporary); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.RemoveAll(temporary)
}

// duplicateContent copies a folder or a file. What loop devices of volumes hold is written to their files before. It is the content of one moment only where
// nobody writes meanwhile: guests of tests write, and then wait.
func duplicateContent(from, to string) error {
	unix.Sync()
	out, err := exec.Command("cp", "--archive", "--sparse=always", "--reflink=auto", "--no-target-directory", from, to).CombinedOutput()
	if err != nil {
		return fmt.Errorf("copying '%s': %w: %s", from, err, bytes.TrimSpace(out))
	}
	return nil
}

// enlargeFile gives a file its size, but takes nothing from it.
func enlargeFile(path string, size int64) error {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	info, err := file.Stat()
	if err == nil && info.Size() < size {
		err = file.Truncate(size)
	}
	return errors.Join(err, file.Close())
}
