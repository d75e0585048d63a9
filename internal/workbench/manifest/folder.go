package manifest

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// A catalog is checked before anyone trusts it, often in a pipeline that runs on a stranger's change. So its folder is not trusted: no link leads
// out of it, only regular files are opened, and its size is limited.

// File is a file of a catalog: of a folder, an archive or the standard input.
type File struct {
	// Name is the name of the file in messages.
	Name    string
	Content []byte
	// Fault is why the file could not be read; nil if it could.
	Fault error
}

// Limits of a catalog. 10,000 instancetypes of 4 kB are 40 MB.
const (
	maxFolderBytes = 128 << 20
	maxFolderFiles = 20000
)

// errTooLarge is the Fault of the first file beyond maxFolderBytes.
var errTooLarge = fmt.Errorf("a catalog has at most %d MiB: split it", maxFolderBytes>>20)

// Objects returns the objects of the file. All files that are read together share at.
func (f File) Objects(at *Positions) []Object { return parseFile(f.Name, f.Content, f.Fault, at) }

// ReadFolder reads the files of a catalog. name is a folder, whose files and subfolders are read, a file, or '-' for the standard
// input. Files with extensions that kubectl does not read, and kustomizations, are left out. It fails if the name does not exist.
func ReadFolder(name string, stdin io.Reader) ([]File, error) {
	rest := int64(maxFolderBytes)
	if name == "-" {
		return []File{readWithin(StandardInput, stdin, &rest)}, nil
	}
	info, err := os.Stat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("the path '%s' does not exist", name)
	case err != nil:
		return nil, err
	case info.IsDir():
		return readFolder(name, &rest)
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("'%s' is neither a regular file nor a folder", name)
	}
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return []File{readWithin(name, file, &rest)}, nil
}

func readFolder(folder string, rest *int64) (files []File, err error) {
	root, err := os.OpenRoot(folder)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	err = fs.WalkDir(root.FS(), ".", func(path string, entry fs.DirEntry, err error) error {
		name := filepath.Join(folder, path)
		switch {
		case err != nil:
			files = append(files, File{Name: name, Fault: err})
			return nil
		case entry.IsDir() || !slices.Contains(FileExtensions, filepath.Ext(path)) ||
			slices.Contains(kustomizationFiles, filepath.Base(path)):
			return nil
		case len(files) == maxFolderFiles:
			return fmt.Errorf("'%s' holds more than %d files: split it", folder, maxFolderFiles)
		}
		files = append(files, readInFolder(root, path, name, rest))
		return nil
	})
	return files, err
}

// readInFolder reads one file of a folder. It follows a link that stays in the folder. It does not open a pipe, because that would wait for a writer.
func readInFolder(root *os.Root, path, name string, rest *int64) File {
	info, err := root.Stat(path)
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("it is not a regular file")
	}
	if err != nil {
		return File{Name: name, Fault: err}
	}
	file, err := root.Open(path)
	if err != nil {
		return File{Name: name, Fault: err}
	}
	defer file.Close()
	return readWithin(name, file, rest)
}

// readWithin reads a file of at most rest bytes, and reduces rest by its size.
func readWithin(name string, from io.Reader, rest *int64) File {
	content, err := io.ReadAll(io.LimitReader(from, *rest+1))
	if *rest -= int64(len(content)); err == nil && *rest < 0 {
		*rest, err = 0, errTooLarge
	}
	if err != nil {
		return File{Name: name, Fault: err}
	}
	return File{Name: name, Content: content}
}
