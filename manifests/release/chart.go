package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/kilnvm/kiln/manifests/images/archive"
	"k8s.io/apimachinery/pkg/util/version"
)

// The two lines of Chart.yaml that a release writes.
var (
	chartVersion = regexp.MustCompile(`(?m)^version: .*$`)
	appVersion   = regexp.MustCompile(`(?m)^appVersion: .*$`)
)

// writeChart packs the chart as 'helm package' does, except the times of the entries, so that the bytes do not depend on them.
func (r release) writeChart(context.Context) error {
	number := semanticVersion(r.from.Version)
	var root archive.Root
	dir := filepath.Join(r.from.Module, "manifests", "chart", "kiln")
	err := fs.WalkDir(os.DirFS(dir), ".", func(name string, found fs.DirEntry, err error) error {
		if err != nil || found.IsDir() {
			return err
		}
		inside := path.Join("kiln", name)
		if name != "Chart.yaml" {
			return root.AddFile(inside, filepath.Join(dir, name), 0o644)
		}
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return err
		}
		stamped, err := stampVersions(string(text), number, r.from.Version)
		if err != nil {
			return err
		}
		return root.AddText(inside, stamped, 0o644)
	})
	if err != nil {
		return err
	}
	raw, err := root.Bytes()
	if err != nil {
		return err
	}
	var out bytes.Buffer
	compressed := gzip.NewWriter(&out)
	_, err = compressed.Write(raw)
	if err := errors.Join(err, compressed.Close()); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.out, "kiln-"+number+".tgz"), out.Bytes(), 0o644)
}

// stampVersions returns Chart.yaml with the versions of the release. appVersion is the tag of the image.
func stampVersions(text, number, tag string) (string, error) {
	for line, value := range map[*regexp.Regexp]string{chartVersion: "version: " + number, appVersion: `appVersion: "` + tag + `"`} {
		if found := len(line.FindAllString(text, -1)); found != 1 {
			return "", fmt.Errorf("the file Chart.yaml has %d lines that match '%s', want 1", found, line)
		}
		text = line.ReplaceAllLiteralString(text, value)
	}
	return text, nil
}

// semanticVersion returns the semantic version of the chart, which Helm requires: 'v1.2.3' is 1.2.3, and a build between releases is lower than all releases.
func semanticVersion(described string) string {
	if parsed, err := version.ParseSemantic(described); err == nil {
		return parsed.String()
	}
	// Without 'g', a revision of digits could be a number with a leading zero, which is not allowed.
	return "0.0.0-g" + strings.Map(func(r rune) rune {
		if r == '_' || r == '.' {
			return '-'
		}
		return r
	}, described)
}
