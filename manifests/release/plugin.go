package main

import (
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/kilnvm/kiln/manifests/images/archive"
	"github.com/kilnvm/kiln/manifests/images/programs"
)

// completion is the program kubectl_complete-kiln, by which kubectl completes the plugin's arguments. It is a script and not a link, because krew unpacks no
// links.
const completion = `#!/bin/sh
exec "$(dirname "$0")/kubectl-kiln" __complete "$@"
`

// writePlugin writes an archive of the command line for each platform, with its licence, and the manifest by which krew installs it.
func (r release) writePlugin(context.Context) error {
	var packed []pluginArchive
	for _, t := range r.targets {
		pack, suffix := r.packTar, ".tar.gz"
		if t.platform.OS == "windows" {
			pack, suffix = r.packZip, ".zip"
		}
		raw, err := pack(t.platform)
		if err != nil {
			return err
		}
		name := "kubectl-kiln-" + t.platform.OS + "-" + t.platform.Architecture + suffix
		if err := os.WriteFile(filepath.Join(r.out, name), raw, 0o644); err != nil {
			return err
		}
		packed = append(packed, pluginArchive{t.platform, name})
	}
	return r.writeKrewManifest(packed)
}

// licence is the path of the licence in the sources.
func (r release) licence() string { return filepath.Join(r.from.Module, "LICENSE") }

// packTar returns the archive for a system that knows links and modes.
func (r release) packTar(p programs.Platform) ([]byte, error) {
	var root archive.Root
	err := errors.Join(
		root.AddFile("kubectl-kiln", filepath.Join(r.programsFolder(p), "kubectl-kiln"), 0o755),
		root.AddText("kubectl_complete-kiln", completion, 0o755),
		root.AddFile("LICENSE", r.licence(), 0o644))
	if err != nil {
		return nil, err
	}
	raw, err := root.Bytes()
	if err != nil {
		return nil, err
	}
	return compress(raw)
}

// packZip returns the archive for Windows, which has no shell for the completion.
func (r release) packZip(p programs.Platform) ([]byte, error) {
	var out bytes.Buffer
	packed := zip.NewWriter(&out)
	for _, file := range []string{filepath.Join(r.programsFolder(p), "kubectl-kiln.exe"), r.licence()} {
		header := zip.FileHeader{Name: filepath.Base(file), Method: zip.Deflate, Modified: r.from.Time.UTC()}
		if r.from.Time.IsZero() {
			header.Modified = time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC) // the first time that the format can express
		}
		to, err := packed.CreateHeader(&header)
		if err != nil {
			return nil, err
		}
		if err := copyFile(to, file); err != nil {
			return nil, err
		}
	}
	err := packed.Close()
	return out.Bytes(), err
}

func copyFile(to io.Writer, name string) (err error) {
	file, err := os.Open(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	_, err = io.Copy(to, file)
	return err
}
