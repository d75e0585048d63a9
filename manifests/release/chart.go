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

// stamps are the lines of a file of the chart that a release replaces. Each pattern matches one line, and keeps what its group matches before the new text.
type stamps map[*regexp.Regexp]string

// The lines that a release writes.
var (
	chartVersion    = regexp.MustCompile(`(?m)^(version: ).*$`)
	appVersion      = regexp.MustCompile(`(?m)^(appVersion: ).*$`)
	imageRepository = regexp.MustCompile(`(?m)^(image:\n(?:  #.*\n)*  repository: )""$`)
)

// chartStamps returns the stamps of each file of the chart. appVersion is the tag of the images.
func (r release) chartStamps() map[string]stamps {
	all := map[string]stamps{"Chart.yaml": {chartVersion: semanticVersion(r.from.Version), appVersion: `"` + r.from.Version + `"`}}
	if r.registry != "" {
		all["values.yaml"] = stamps{imageRepository: r.registry + "/kiln"}
	}
	return all
}

// writeChart writes the chart for 'helm install FILE' and as an archive of an OCI artifact.
func (r release) writeChart(ctx context.Context) error {
	packed, metadata, err := r.packChart()
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(r.out, "kiln-"+semanticVersion(r.from.Version)+".tgz"), packed, 0o644); err != nil {
		return err
	}
	return r.writeChartArtifact(ctx, packed, metadata)
}

// packChart packs the chart as 'helm package' does, except the times of the entries, so that the bytes do not depend on them. It also returns Chart.yaml.
func (r release) packChart() (packed, metadata []byte, err error) {
	var root archive.Root
	stamped := r.chartStamps()
	dir := filepath.Join(r.from.Module, "manifests", "chart", "kiln")
	err = fs.WalkDir(os.DirFS(dir), ".", func(name string, found fs.DirEntry, err error) error {
		if err != nil || found.IsDir() {
			return err
		}
		inside := path.Join("kiln", name)
		if stamped[name] == nil {
			return root.AddFile(inside, filepath.Join(dir, name), 0o644)
		}
		raw, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return err
		}
		text, err := stamped[name].apply(name, string(raw))
		if err != nil {
			return err
		}
		if name == "Chart.yaml" {
			metadata = []byte(text)
		}
		return root.AddText(inside, text, 0o644)
	})
	if err != nil {
		return nil, nil, err
	}
	raw, err := root.Bytes()
	if err != nil {
		return nil, nil, err
	}
	packed, err = compress(raw)
	return packed, metadata, err
}

// compress returns bytes in gzip's format, without a name and without a time.
func compress(raw []byte) ([]byte, error) {
	var out bytes.Buffer
	compressed := gzip.NewWriter(&out)
	_, err := compressed.Write(raw)
	err = errors.Join(err, compressed.Close())
	return out.Bytes(), err
}

// apply returns the text of a file of the chart with the stamps of the release.
func (s stamps) apply(name, text string) (string, error) {
	for line, value := range s {
		if found := len(line.FindAllString(text, -1)); found != 1 {
			return "", fmt.Errorf("the file %s has %d lines that match '%s', want 1", name, found, line)
		}
		text = line.ReplaceAllString(text, "${1}"+strings.ReplaceAll(value, "$", "$$"))
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
