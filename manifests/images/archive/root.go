// Package archive writes OCI image archives whose bytes depend only on their content: entries are sorted, and times, owners of folders and names of
// owners are left out. The content of an image (packages, a tar archive) is not trusted: nothing is read outside of the given folder,
// and no name leads out of the image.
package archive

import (
	"archive/tar"
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"time"
)

// Root is the root file system of an image. Its zero value is empty.
type Root struct {
	entries map[string]entry
}

// entry is a file, a folder or a link. Its path in the root file system is the key of Root.entries.
type entry struct {
	header tar.Header
	open   func() (io.ReadCloser, error) // only for a regular file
}

// AddText adds a file with a short text at the path name.
func (r *Root) AddText(name, text string, mode fs.FileMode) error {
	header := tar.Header{Typeflag: tar.TypeReg, Name: name, Size: int64(len(text)), Mode: int64(mode.Perm())}
	return r.addEntry(entry{header, func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(text)), nil }})
}

// AddFile adds a file of this machine at the path name. The file is read when the image is written.
func (r *Root) AddFile(name, source string, mode fs.FileMode) error {
	info, err := os.Stat(source)
	if err != nil {
		return err
	}
	header := tar.Header{Typeflag: tar.TypeReg, Name: name, Size: info.Size(), Mode: int64(mode.Perm())}
	return r.addEntry(entry{header, func() (io.ReadCloser, error) { return os.Open(source) }})
}

// AddEmptyFolder adds a folder at the path name, such as /tmp with mode 0o1777.
func (r *Root) AddEmptyFolder(name string, mode int64) error {
	return r.addEntry(entry{header: tar.Header{Typeflag: tar.TypeDir, Name: name, Mode: mode & 0o7777}})
}

// AddLink adds a symbolic link at the path name. It is never followed here, so that its target may be missing.
func (r *Root) AddLink(name, target string) error {
	if err := checkPrintable(target); err != nil {
		return err
	}
	return r.addEntry(entry{header: tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: target, Mode: 0o777}})
}

// SetOwner makes an account, by its number, the owner of files, folders and links that were added.
func (r *Root) SetOwner(account int, names ...string) error {
	for _, name := range names {
		name, err := cleanPath(name)
		if err != nil {
			return err
		}
		e, found := r.entries[name]
		if !found {
			return fmt.Errorf("the image has no '%s'", name)
		}
		e.header.Uid, e.header.Gid = account, account
		r.entries[name] = e
	}
	return nil
}

// capability is the record of a tar archive for the extended attribute in which Linux keeps the capabilities of a program.
const capability = "SCHILY.xattr.security.capability"

// The first word of the attribute: its revision, and a flag that the program has its capabilities in effect when it starts.
const capRevision2, capEffective = 0x02000000, 0x000001

// SetCapabilities gives a program that was added Linux capabilities, by their numbers. A process that starts it has them if the container may have them.
func (r *Root) SetCapabilities(name string, capabilities ...uint) error {
	name, err := cleanPath(name)
	if err != nil {
		return err
	}
	e, found := r.entries[name]
	if !found || e.header.Typeflag != tar.TypeReg {
		return fmt.Errorf("'%s' is not a file of the image", name)
	}
	var permitted uint64
	for _, number := range capabilities {
		permitted |= 1 << number
	}
	// struct vfs_cap_data of linux/capability.h: revision and flags, then permitted and inheritable capabilities, low halves first.
	var data []byte
	for _, word := range []uint32{capRevision2 | capEffective, uint32(permitted), 0, uint32(permitted >> 32), 0} {
		data = binary.LittleEndian.AppendUint32(data, word)
	}
	e.header.PAXRecords = map[string]string{capability: string(data)}
	r.entries[name] = e
	return nil
}

// addEntry adds an entry. It fails if the path exists, except for a folder: several packages have /usr/share.
func (r *Root) addEntry(e entry) error {
	name, err := cleanPath(e.header.Name)
	if err != nil {
		return err
	}
	if old, found := r.entries[name]; found && (old.header.Typeflag != tar.TypeDir || e.header.Typeflag != tar.TypeDir) {
		return fmt.Errorf("'%s' appears twice", name)
	}
	e.header.Name = name
	if r.entries == nil {
		r.entries = map[string]entry{}
	}
	r.entries[name] = e
	return nil
}

// cleanPath returns a path relative to the root of the image, as a layer contains it. It refuses paths that lead out of the image, and elements that begin with
// '.wh.', by which a container runtime deletes a file of another layer.
func cleanPath(name string) (string, error) {
	short := strings.TrimSuffix(strings.TrimPrefix(strings.TrimPrefix(name, "./"), "/"), "/")
	// fs.ValidPath refuses '..', empty elements, and what is not UTF-8.
	if !fs.ValidPath(short) || short == "." {
		return "", fmt.Errorf("path %q must lead into the image: without '..', without empty elements, in UTF-8", name)
	}
	for element := range strings.SplitSeq(short, "/") {
		if strings.HasPrefix(element, ".wh.") {
			return "", fmt.Errorf("path %q must have no element that starts with '.wh.': an image layer deletes files by such names", name)
		}
	}
	return short, checkPrintable(name)
}

// checkPrintable refuses control characters, which a name of a package never has.
func checkPrintable(name string) error {
	if strings.ContainsFunc(name, func(c rune) bool { return c < ' ' || c == 0x7f }) {
		return fmt.Errorf("path %q must have no control characters", name)
	}
	return nil
}

// WriteTar writes the root file system as an uncompressed tar archive. It adds missing folders with owner root and mode 0755.
func (r *Root) WriteTar(out io.Writer) error {
	entries, err := r.sortedEntries()
	if err != nil {
		return err
	}
	archive := tar.NewWriter(out)
	for _, e := range entries {
		if err := e.writeTo(archive); err != nil {
			return fmt.Errorf("'%s': %w", e.header.Name, err)
		}
	}
	return archive.Close()
}

// sortedEntries returns the entries sorted by path, with hard links at the end, because the file that a link names must come before it.
func (r *Root) sortedEntries() ([]entry, error) {
	all := maps.Clone(r.entries)
	for name, e := range r.entries {
		for parent := path.Dir(name); parent != "."; parent = path.Dir(parent) {
			above, found := all[parent]
			if !found {
				all[parent] = entry{header: tar.Header{Typeflag: tar.TypeDir, Name: parent, Mode: 0o755}}
			} else if above.header.Typeflag != tar.TypeDir {
				// A program that unpacks the image would follow the link, and write outside the image.
				return nil, fmt.Errorf("'%s' is below '%s', which is not a folder", name, parent)
			}
		}
		if e.header.Typeflag == tar.TypeLink && all[e.header.Linkname].header.Typeflag != tar.TypeReg {
			return nil, fmt.Errorf("'%s' is a hard link to '%s', which is not a file of the image", name, e.header.Linkname)
		}
	}
	return slices.SortedFunc(maps.Values(all), func(a, b entry) int {
		if links := cmp.Compare(linkRank(a), linkRank(b)); links != 0 {
			return links
		}
		return cmp.Compare(a.header.Name, b.header.Name)
	}), nil
}

func linkRank(e entry) int {
	if e.header.Typeflag == tar.TypeLink {
		return 1
	}
	return 0
}

// writeTo writes the entry with only the fields that an image needs.
func (e entry) writeTo(archive *tar.Writer) (err error) {
	h := e.header
	header := tar.Header{
		Typeflag: h.Typeflag, Name: h.Name, Linkname: h.Linkname, Size: h.Size, Mode: h.Mode, Uid: h.Uid, Gid: h.Gid,
		ModTime: time.Unix(0, 0), Format: tar.FormatPAX,
	}
	if granted, found := h.PAXRecords[capability]; found {
		header.PAXRecords = map[string]string{capability: granted}
	}
	if h.Typeflag == tar.TypeDir {
		header.Name += "/"
	}
	if err := archive.WriteHeader(&header); err != nil || h.Typeflag != tar.TypeReg {
		return err
	}
	content, err := e.open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, content.Close()) }()
	_, err = io.Copy(archive, content)
	return err
}

// Bytes returns the root file system as an uncompressed tar archive. It is for small ones, such as a chart.
func (r *Root) Bytes() ([]byte, error) {
	var out bytes.Buffer
	err := r.WriteTar(&out)
	return out.Bytes(), err
}
