package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/manifests/images/programs"
)

// small is a checkout with the real manifests, and with programs that do nothing.
func small(t *testing.T) programs.Sources {
	t.Helper()
	dir := t.TempDir()
	files := map[string]string{"go.mod": "module github.com/kilnvm/kiln\n\ngo 1.26\n"}
	for _, name := range server {
		files["cmd/"+name+"/main.go"] = "package main\n\nfunc main() {}\n"
	}
	err := filepath.WalkDir("..", func(name string, found fs.DirEntry, err error) error {
		if err != nil || found.IsDir() || strings.HasSuffix(name, ".go") {
			return err
		}
		text, err := os.ReadFile(name)
		files[filepath.Join("manifests", strings.TrimPrefix(name, "../"))] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if files["manifests/chart/kiln/Chart.yaml"] == "" {
		files["manifests/chart/kiln/Chart.yaml"] = "name: kiln\nversion: 0.0.0\nappVersion: latest\n"
	}
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	return programs.Sources{Module: dir, Version: "v0.1.0", Revision: "4f1c", Time: time.Unix(1_700_000_000, 0)}
}

// written writes a release for Linux into a folder of its own.
func written(t *testing.T) (folder string) {
	t.Helper()
	folder = filepath.Join(t.TempDir(), "bin", "release")
	if err := writeRelease(t.Context(), folder, small(t), targets[:2]); err != nil {
		t.Fatal(err)
	}
	return folder
}

func read(t *testing.T, elements ...string) []byte {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(elements...))
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// TestRelease: everything is there, with its sum, with the version, and with the same bytes as another release of the same sources.
func TestRelease(t *testing.T) {
	t.Parallel()
	folder := written(t)
	list := string(read(t, folder, "SHA256SUMS"))
	if again := string(read(t, written(t), "SHA256SUMS")); list != again {
		t.Errorf("two releases differ: %s", cmp.Diff(list, again))
	}
	var names []string
	for line := range strings.Lines(list) {
		sum, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		names = append(names, name)
		if is, err := fileDigest(filepath.Join(folder, name)); err != nil || is != sum {
			t.Errorf("%s: %s, in the list %s %v", name, is, sum, err)
		}
	}
	for _, want := range strings.Fields(`controller-linux-amd64 controller-linux-arm64 install-cert-manager.yaml install-rotation.yaml kiln-0.1.0.tgz
		kiln-image.tar kiln.cdx.json kubectl-kiln-linux-amd64 kubectl-kiln-linux-arm64 launcher-linux-amd64 launcher-linux-arm64
		webhook-linux-amd64 webhook-linux-arm64`) {
		if !strings.Contains(list, "  "+want+"\n") {
			t.Errorf("no '%s' among %q", want, names)
		}
	}
	install := string(read(t, folder, "install-rotation.yaml"))
	if !strings.Contains(install, "name: LAUNCHER_IMAGE\n          value: kiln-launcher:v0.1.0\n") {
		t.Error("the image of the launcher has another version")
	}
	if strings.Count(install, "image: kiln:v0.1.0\n") != 2 || strings.Contains(install, "image: kiln\n") {
		t.Error("install-rotation.yaml does not name the image of the release")
	}
	if first, _, _ := strings.Cut(install, "---"); !strings.Contains(first, "kind: Namespace") {
		t.Errorf("install-rotation.yaml starts with\n%.200s", first)
	}
	left, err := filepath.Glob(filepath.Join(filepath.Dir(folder), ".release-*"))
	if err != nil || len(left) != 0 {
		t.Errorf("left behind: %v %v", left, err)
	}
	packed(t, folder)
	materials(t, folder)
}

// packed: Helm finds the chart in its folder, with the versions of the release.
func packed(t *testing.T, folder string) {
	t.Helper()
	compressed, err := gzip.NewReader(bytes.NewReader(read(t, folder, "kiln-0.1.0.tgz")))
	if err != nil {
		t.Fatal(err)
	}
	archive := tar.NewReader(compressed)
	for {
		header, err := archive.Next()
		if err != nil {
			t.Fatalf("no kiln/Chart.yaml: %v", err)
		}
		if header.Name != "kiln/Chart.yaml" {
			continue
		}
		text, err := io.ReadAll(archive)
		if err != nil || !strings.Contains(string(text), "\nversion: 0.1.0\n") || !strings.Contains(string(text), "\nappVersion: \"v0.1.0\"\n") {
			t.Errorf("%v:\n%s", err, text)
		}
		return
	}
}

// materials: each program is named with what it consists of, and nothing differs from run to run.
func materials(t *testing.T, folder string) {
	t.Helper()
	var document struct {
		BOMFormat    string `json:"bomFormat"`
		SerialNumber string
		Components   []struct{ Name, Version string }
		Dependencies []struct {
			Ref       string
			DependsOn []string `json:"dependsOn"`
		}
	}
	if err := json.Unmarshal(read(t, folder, "kiln.cdx.json"), &document); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, c := range document.Components {
		names = append(names, c.Name)
	}
	if diff := cmp.Diff(append(append([]string{}, server...), "stdlib"), names); diff != "" || document.BOMFormat != "CycloneDX" || document.SerialNumber != "" {
		t.Errorf("%+v %s", document, diff)
	}
	for _, d := range document.Dependencies[1:] {
		if len(d.DependsOn) != 1 || !strings.HasPrefix(d.DependsOn[0], "pkg:golang/stdlib@1.") {
			t.Errorf("%+v", d)
		}
	}
}

// TestUnfinished: a release that fails leaves the former one as it is.
func TestUnfinished(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "release")
	if err := errors.Join(os.Mkdir(folder, 0o755), os.WriteFile(filepath.Join(folder, "former"), nil, 0o644)); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if err := writeRelease(ctx, folder, small(t), targets[:1]); err == nil {
		t.Error("a release without time succeeded")
	}
	read(t, folder, "former")
}

func TestSemantic(t *testing.T) {
	t.Parallel()
	for described, want := range map[string]string{
		"v1.2.3": "1.2.3", "v1.2.3-4-g6636861": "1.2.3-4-g6636861", "v1.2.3-dirty": "1.2.3-dirty", "0636861": "0.0.0-g0636861",
		"6636861-dirty": "0.0.0-g6636861-dirty", "devel": "0.0.0-gdevel", "a_b.c": "0.0.0-ga-b-c",
	} {
		if got := semanticVersion(described); got != want {
			t.Errorf("'%s': '%s', want '%s'", described, got, want)
		}
	}
}

// TestStamped: a chart whose lines moved is not packed with the versions of another release.
func TestStamped(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{"name: kiln\n": "0 lines", "version: 1\nversion: 2\nappVersion: 1\n": "2 lines"} {
		if _, err := stampVersions(text, "1.0.0", "v1.0.0"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
}
