package fields

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kdomanski/iso9660"
)

// folderContents returns the name, the size and the content of every file, and of every file within an image. It leaves out times.
func folderContents(dir string) string {
	var text strings.Builder
	must(filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !entry.Type().IsRegular() {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		fmt.Fprintf(&text, "\n%s %d ", strings.TrimPrefix(path, dir), info.Size())
		switch {
		case slices.ContainsFunc(common, func(name string) bool { return strings.HasSuffix(path, "/"+name) }):
		case filepath.Ext(path) == ".iso":
			return writeImageContents(&text, path)
		case info.Size() < 1<<20:
			raw, err := os.ReadFile(path)
			text.WriteString(strings.ReplaceAll(string(raw), dir, ""))
			return err
		}
		return nil
	}))
	return text.String()
}

// writeImageContents writes the label and the files of an ISO 9660 image.
func writeImageContents(text *strings.Builder, path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	opened, err := iso9660.OpenImage(file)
	if err != nil {
		return err
	}
	label, labelled := opened.Label()
	root, err := opened.RootDir()
	if err = errors.Join(labelled, err); err != nil {
		return err
	}
	text.WriteString(label)
	return imageFiles(text, root)
}

func imageFiles(text *strings.Builder, dir *iso9660.File) error {
	children, err := dir.GetChildren()
	if err != nil {
		return err
	}
	for _, child := range children {
		if child.IsDir() {
			if err := imageFiles(text, child); err != nil {
				return err
			}
			continue
		}
		fmt.Fprintf(text, "\n  %s ", child.Name())
		if _, err := io.Copy(text, child.Reader()); err != nil {
			return err
		}
	}
	return nil
}
