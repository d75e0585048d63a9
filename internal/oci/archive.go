package oci

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
)

// packFiles returns files as a gzipped tar archive. Equal files give equal bytes, whatever their order: the archive has no times and no owners, and all files
// have one mode.
func packFiles(files []File) ([]byte, error) {
	files = slices.Clone(files)
	slices.SortFunc(files, func(a, b File) int { return strings.Compare(a.Name, b.Name) })
	var out bytes.Buffer
	// The header of gzip has neither a name nor a time unless they are set.
	compressed := gzip.NewWriter(&out)
	archive := tar.NewWriter(compressed)
	for i, f := range files {
		if err := checkName(f.Name); err != nil {
			return nil, err
		}
		if i > 0 && files[i-1].Name == f.Name {
			return nil, fmt.Errorf("file '%s' appears twice", f.Name)
		}
		header := tar.Header{Typeflag: tar.TypeReg, Name: f.Name, Size: int64(len(f.Content)), Mode: 0o644}
		if err := archive.WriteHeader(&header); err != nil {
			return nil, fmt.Errorf("file '%s': %w", f.Name, err)
		}
		if _, err := archive.Write(f.Content); err != nil {
			return nil, fmt.Errorf("file '%s': %w", f.Name, err)
		}
	}
	if err := errors.Join(archive.Close(), compressed.Close()); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// bounds are the limits of an archive.
type bounds struct {
	entries int
	content int64 // bytes when it is unpacked
}

func (b bounds) tooLarge() error {
	return fmt.Errorf("the archive must have at most %d bytes when it is unpacked", b.content)
}

// unpackFiles returns the files of a gzipped tar archive. It refuses links, devices, paths that leave the archive's folder, names that appear twice, and
// archives beyond the bounds. It never writes to a file system.
func unpackFiles(raw []byte, within bounds) (files []File, err error) {
	compressed, err := gzip.NewReader(bytes.NewReader(raw))
	if err != nil {
		return nil, fmt.Errorf("the layer of files must be a gzipped tar archive: %w", err)
	}
	// One byte above the bound tells a bomb from an archive of exactly that size.
	bounded := &io.LimitedReader{R: compressed, N: within.content + 1}
	archive := tar.NewReader(bounded)
	seen := map[string]bool{}
	total := int64(0)
	for entries := 0; ; entries++ {
		header, err := archive.Next()
		if bounded.N <= 0 {
			return nil, within.tooLarge()
		}
		if errors.Is(err, io.EOF) {
			return files, nil
		}
		if err != nil {
			return nil, fmt.Errorf("the archive cannot be read: %w", err)
		}
		if entries == within.entries {
			return nil, fmt.Errorf("the archive must have at most %d entries", within.entries)
		}
		if header.Typeflag == tar.TypeDir {
			continue // files name their folders
		}
		name := strings.TrimPrefix(header.Name, "./")
		switch err := checkName(name); {
		case err != nil:
			return nil, err
		case header.Typeflag != tar.TypeReg:
			return nil, fmt.Errorf("entry '%s' of the archive must be a regular file: links and devices are refused", printableText(name))
		case seen[name]:
			return nil, fmt.Errorf("file '%s' appears twice in the archive", name)
		}
		// A sparse file of a few bytes can claim any size, because its holes take no bytes of the archive.
		if total += header.Size; header.Size > within.content || total > within.content {
			return nil, within.tooLarge()
		}
		content, err := io.ReadAll(archive)
		if bounded.N <= 0 {
			return nil, within.tooLarge()
		}
		if err != nil {
			return nil, fmt.Errorf("file '%s' of the archive cannot be read: %w", name, err)
		}
		seen[name] = true
		files = append(files, File{name, content})
	}
}

// checkName refuses names that could lead out of a folder or that differ between file systems.
func checkName(name string) error {
	bad := name == "" || len(name) > 512 || path.IsAbs(name) || path.Clean(name) != name || name == ".." || strings.HasPrefix(name, "../")
	if bad || strings.ContainsFunc(name, func(r rune) bool { return r == '\\' || r == ':' || r < ' ' || r == 0x7f }) {
		return fmt.Errorf("entry '%s' of the archive must be a relative path without '.', '..', backslashes, colons and control characters", printableText(name))
	}
	return nil
}

// printableText returns at most 200 bytes of an untrusted text, without control characters.
func printableText(text string) string {
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return '?'
		}
		return r
	}, strings.ToValidUTF8(text, "?"))
	if len(text) > 200 {
		return strings.ToValidUTF8(text[:200], "") + "..."
	}
	return text
}

// trimScheme returns a reference without the scheme.
func trimScheme(reference string) string { return strings.TrimPrefix(reference, Scheme) }
