package hostresources

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	disk "github.com/diskfs/go-diskfs/backend/file"
	"github.com/diskfs/go-diskfs/filesystem/iso9660"
)

// The names of keys have capital letters, several dots and up to 253 characters, and programs of the guest look for exactly these names. ISO 9660 cannot have
// them without extensions: Linux reads them from Rock Ridge, Windows from Joliet. An image with a name that is too long for Joliet is written without Joliet.

// buildNamedISO returns an image of files by their paths. Unlike buildISO, equal files do not give equal bytes, because the files have times.
func buildNamedISO(label string, files map[string]string) (content []byte, err error) {
	work, err := os.MkdirTemp("", "iso-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	tree, image := filepath.Join(work, "tree"), filepath.Join(work, "image")
	if err := os.Mkdir(tree, 0o755); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(tree) // keys must not lead out of it
	if err != nil {
		return nil, err
	}
	defer root.Close()
	for name, text := range files {
		if err := errors.Join(root.MkdirAll(filepath.Dir(name), 0o755), root.WriteFile(name, []byte(text), 0o644)); err != nil {
			return nil, err
		}
	}
	options := iso9660.FinalizeOptions{RockRidge: true, Joliet: fitsJoliet(files), VolumeIdentifier: label}
	if err := writeISO(image, tree, options); err != nil {
		return nil, fmt.Errorf("the image of the files cannot be made: %w", err)
	}
	return os.ReadFile(image)
}

// longestJoliet is the maximum length of a name in Joliet's specification. The writer makes a wrong folder for much longer names.
const longestJoliet = 64

func fitsJoliet(files map[string]string) bool {
	for name := range files {
		if slices.ContainsFunc(strings.Split(name, "/"), func(part string) bool { return len(part) > longestJoliet }) {
			return false
		}
	}
	return true
}

func writeISO(image, tree string, options iso9660.FinalizeOptions) (err error) {
	out, err := os.OpenFile(image, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	writer, err := iso9660.Create(disk.New(out, false), 0, 0, 2048, tree)
	if err != nil {
		return err
	}
	return writer.Finalize(options)
}
