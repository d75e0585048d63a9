package libvirt

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// probes is where a daemon keeps what it has learned of each installed QEMU, below its folder.
const probes = "cache/qemu/capabilities"

// probesFolder returns the folder of what earlier daemons of a configuration have learned; empty where the user has no folder for caches. A daemon without it
// starts each QEMU several times, 2 s of CPU time and more of waiting. libvirt itself looks whether an answer is still right: it names the file by the program,
// and compares times of QEMU and of itself, the kernel, the CPU, and whether the user of QEMU may use KVM, which is why each configuration has a folder.
func probesFolder(conf []byte) string {
	dir, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(conf)
	return filepath.Join(dir, "kiln", "libvirt-"+hex.EncodeToString(sum[:8]))
}

// Recall copies what earlier daemons of the same name have learned about QEMU into dir, the folder of capabilities of a daemon that a test starts itself.
func Recall(name, dir string) error { return copyNewer(probesFolder([]byte(name)), dir) }

// Remember stores what such a daemon has learned, for later daemons.
func Remember(name, dir string) error { return copyNewer(dir, probesFolder([]byte(name))) }

// recallProbes gives the daemon what earlier ones have learned.
func (d *Daemon) recallProbes() error { return copyNewer(d.kept, filepath.Join(d.dir, probes)) }

// rememberProbes keeps what this daemon has learned, for later ones.
func (d *Daemon) rememberProbes() error { return copyNewer(filepath.Join(d.dir, probes), d.kept) }

// copyNewer copies the files of a folder that are later than those in the other. Times go with them, so that a copy is not copied back.
func copyNewer(from, to string) error {
	files, err := filepath.Glob(filepath.Join(from, "*.xml"))
	if err != nil || from == "" || to == "" || len(files) == 0 {
		return err
	}
	errs := []error{os.MkdirAll(to, 0o700)}
	for _, file := range files {
		there, err := os.Stat(filepath.Join(to, filepath.Base(file)))
		is, gone := os.Stat(file)
		if gone == nil && (err != nil || is.ModTime().After(there.ModTime())) {
			errs = append(errs, replaceFile(file, is, to))
		}
	}
	return errors.Join(errs...)
}

// replaceFile copies a file by a rename, because other daemons read and write the folder at the same time.
func replaceFile(file string, is fs.FileInfo, to string) error {
	content, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) { // a daemon that ended by itself has removed its folder
		return nil
	}
	if err != nil {
		return err
	}
	draft, err := os.CreateTemp(to, "draft-")
	if err != nil {
		return err
	}
	defer os.Remove(draft.Name()) // fails after the rename
	_, err = draft.Write(content)
	if err := errors.Join(err, draft.Close(), os.Chtimes(draft.Name(), is.ModTime(), is.ModTime())); err != nil {
		return err
	}
	return os.Rename(draft.Name(), filepath.Join(to, is.Name()))
}
