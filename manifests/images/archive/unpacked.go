package archive

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// AddFolder adds the content of a folder, such as unpacked packages, at the root of the image. The owner of everything is root, because the user who unpacked
// the files owns them. Links are kept and never followed.
func (r *Root) AddFolder(dir string) (err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	return fs.WalkDir(root.FS(), ".", func(name string, found fs.DirEntry, err error) error {
		if err != nil || name == "." {
			return err
		}
		e, err := entryInFolder(root, name)
		if err != nil {
			return err
		}
		// The file is opened when it is read. If it has become a link out of the folder meanwhile, opening fails.
		e.open = func() (io.ReadCloser, error) { return os.OpenInRoot(dir, name) }
		return r.addEntry(e)
	})
}

// entryInFolder returns the entry for a path in a folder.
func entryInFolder(root *os.Root, name string) (entry, error) {
	info, err := root.Lstat(name)
	if err != nil {
		return entry{}, err
	}
	header := tar.Header{Name: name, Mode: modeBits(info.Mode())}
	switch info.Mode().Type() {
	case 0:
		header.Typeflag, header.Size = tar.TypeReg, info.Size()
	case fs.ModeDir:
		header.Typeflag = tar.TypeDir
	case fs.ModeSymlink:
		header.Typeflag = tar.TypeSymlink
		if header.Linkname, err = root.Readlink(name); err == nil {
			err = checkPrintable(header.Linkname)
		}
	default:
		err = fmt.Errorf("'%s' must be a file, a folder or a link: an image has no %s", name, info.Mode().Type())
	}
	return entry{header: header}, err
}

// modeBits converts a mode to the bits of chmod.
func modeBits(mode fs.FileMode) int64 {
	out := int64(mode.Perm())
	for flag, bit := range map[fs.FileMode]int64{fs.ModeSetuid: 0o4000, fs.ModeSetgid: 0o2000, fs.ModeSticky: 0o1000} {
		if mode&flag != 0 {
			out |= bit
		}
	}
	return out
}

// AddTar adds the content of an uncompressed tar archive, such as the output of 'dpkg-deb --fsys-tarfile' or mmdebstrap, at the root of the image. Numeric
// owners are kept. The content of files is copied into the folder spool, which must exist until the image is written. Its files have random names, because
// names in the archive are not trusted.
func (r *Root) AddTar(in io.Reader, spool string) error {
	archive := tar.NewReader(in)
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("the tar archive cannot be read: %w", err)
		}
		if header.Name == "./" || header.Name == "." {
			continue
		}
		e, err := spoolEntry(archive, header, spool)
		if err != nil {
			return err
		}
		if err := r.addEntry(e); err != nil {
			return err
		}
	}
}

// spoolEntry returns the entry for a header of a tar archive, and copies the content of a file into the spool.
func spoolEntry(archive *tar.Reader, header *tar.Header, spool string) (entry, error) {
	for key := range header.PAXRecords {
		if strings.HasPrefix(key, "SCHILY.xattr.") {
			return entry{}, fmt.Errorf("'%s' has the extended attribute '%s', which would be lost", header.Name, strings.TrimPrefix(key, "SCHILY.xattr."))
		}
	}
	e := entry{header: *header}
	e.header.Mode &= 0o7777
	var err error
	switch header.Typeflag {
	case tar.TypeDir:
	case tar.TypeSymlink:
		err = checkPrintable(header.Linkname)
	case tar.TypeLink:
		e.header.Linkname, err = cleanPath(header.Linkname)
	case tar.TypeReg:
		e.open, err = spoolContent(archive, spool)
	default:
		err = fmt.Errorf("'%s' must be a file, a folder or a link: an image has no entries of type %s", header.Name, strconv.QuoteRune(rune(header.Typeflag)))
	}
	return e, err
}

// spoolContent copies the content of a file into the spool, and returns a function that opens it.
func spoolContent(content io.Reader, spool string) (open func() (io.ReadCloser, error), err error) {
	file, err := os.CreateTemp(spool, "content")
	if err != nil {
		return nil, err
	}
	_, err = io.Copy(file, content)
	if err := errors.Join(err, file.Close()); err != nil {
		return nil, err
	}
	name := filepath.Clean(file.Name())
	return func() (io.ReadCloser, error) { return os.Open(name) }, nil
}
