package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/manifests/images/programs"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/content/oci"
	"sigs.k8s.io/yaml"
)

// small is a checkout with the real manifests, and with programs that do nothing.
func small(t *testing.T) programs.Sources {
	t.Helper()
	dir := t.TempDir()
	files := map[string]string{"go.mod": "module github.com/kilnvm/kiln\n\ngo 1.26\n", "LICENSE": "the licence\n"}
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
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	return programs.Sources{Module: dir, Version: "v0.1.0", Revision: "4f1c", Time: time.Unix(1_700_000_000, 0)}
}

// written writes a release for Linux and Windows into a folder of its own.
func written(t *testing.T, at places) (folder string) {
	t.Helper()
	folder = filepath.Join(t.TempDir(), "bin", "release")
	if err := writeRelease(t.Context(), folder, small(t), []target{targets[0], targets[1], targets[4]}, at); err != nil {
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
	folder := written(t, places{})
	list := string(read(t, folder, "SHA256SUMS"))
	if again := string(read(t, written(t, places{}), "SHA256SUMS")); list != again {
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
		kiln-chart.tar kiln-image.tar kiln.cdx.json krew-kiln.yaml kubectl-kiln-linux-amd64 kubectl-kiln-linux-amd64.tar.gz kubectl-kiln-linux-arm64
		kubectl-kiln-windows-amd64.exe kubectl-kiln-windows-amd64.zip launcher-linux-amd64 launcher-linux-arm64
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
	chart := unpacked(t, read(t, folder, "kiln-0.1.0.tgz"))
	if text := chart["kiln/Chart.yaml"]; !strings.Contains(text, "\nversion: 0.1.0\n") || !strings.Contains(text, "\nappVersion: \"v0.1.0\"\n") {
		t.Errorf("Chart.yaml:\n%s", text)
	}
	if text := chart["kiln/values.yaml"]; text != string(read(t, "../chart/kiln/values.yaml")) {
		t.Errorf("a release of no registry has changed the values:\n%s", text)
	}
	artifact(t, folder)
	plugin(t, folder)
	materials(t, folder)
}

// unpacked returns the files of a gzipped tar archive.
func unpacked(t *testing.T, raw []byte) map[string]string {
	t.Helper()
	compressed, err := gzip.NewReader(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for archive := tar.NewReader(compressed); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		files[header.Name] = string(text)
	}
}

// artifact: the chart is an artifact of Helm's media types, with the bytes of the packed chart as its layer.
func artifact(t *testing.T, folder string) {
	t.Helper()
	store, err := oci.NewFromTar(t.Context(), filepath.Join(folder, "kiln-chart.tar"))
	if err != nil {
		t.Fatal(err)
	}
	_, raw, err := oras.FetchBytes(t.Context(), store, "0.1.0", oras.FetchBytesOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var manifest ocispec.Manifest
	if err := json.Unmarshal(raw, &manifest); err != nil {
		t.Fatal(err)
	}
	if manifest.Config.MediaType != chartConfigType || len(manifest.Layers) != 1 || manifest.Layers[0].MediaType != chartLayerType {
		t.Fatalf("%s", raw)
	}
	if layer, err := content.FetchAll(t.Context(), store, manifest.Layers[0]); err != nil || !bytes.Equal(layer, read(t, folder, "kiln-0.1.0.tgz")) {
		t.Errorf("the layer is not the packed chart: %v", err)
	}
	config, err := content.FetchAll(t.Context(), store, manifest.Config)
	if err != nil || !strings.Contains(string(config), `"appVersion":"v0.1.0"`) || !strings.Contains(string(config), `"version":"0.1.0"`) {
		t.Errorf("the configuration is '%s' %v", config, err)
	}
}

// plugin: each platform of krew's manifest names an archive by its digest, and the archive has what the manifest says.
func plugin(t *testing.T, folder string) {
	t.Helper()
	var manifest krewPlugin
	if err := yaml.UnmarshalStrict(read(t, folder, "krew-kiln.yaml"), &manifest); err != nil {
		t.Fatal(err)
	}
	if len(manifest.Spec.Platforms) != 3 || manifest.Spec.Version != "v0.1.0" {
		t.Fatalf("%+v", manifest)
	}
	for _, p := range manifest.Spec.Platforms {
		name := filepath.Base(p.URI)
		if sum, err := fileDigest(filepath.Join(folder, name)); err != nil || sum != p.SHA256 {
			t.Errorf("%s has digest %s %v, in the manifest %s", name, sum, err, p.SHA256)
		}
		if want := "https://github.com/kilnvm/kiln/releases/download/v0.1.0/" + name; p.URI != want {
			t.Errorf("'%s', want '%s'", p.URI, want)
		}
		var files []string
		if raw := read(t, folder, name); p.Selector.MatchLabels["os"] == "windows" {
			packed, err := zip.NewReader(bytes.NewReader(raw), int64(len(raw)))
			if err != nil {
				t.Fatal(err)
			}
			for _, file := range packed.File {
				files = append(files, file.Name)
			}
		} else {
			files = slices.Sorted(maps.Keys(unpacked(t, raw)))
		}
		want := []string{"LICENSE", "kubectl-kiln", "kubectl_complete-kiln"}
		if p.Bin == "kubectl-kiln.exe" {
			want = []string{"kubectl-kiln.exe", "LICENSE"}
		}
		if diff := cmp.Diff(want, files); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// TestRegistry: a release for a registry needs no values, because its chart and its install manifests name the images there.
func TestRegistry(t *testing.T) {
	t.Parallel()
	folder := written(t, places{registry: "registry.example.org/someone/kiln", downloads: "https://example.org/files/"})
	values := unpacked(t, read(t, folder, "kiln-0.1.0.tgz"))["kiln/values.yaml"]
	if !strings.Contains(values, "\n  repository: registry.example.org/someone/kiln/kiln\n") || strings.Count(values, "registry.example.org") != 1 {
		t.Errorf("values.yaml does not name the image once:\n%s", values)
	}
	install := string(read(t, folder, "install-rotation.yaml"))
	for _, want := range []string{"image: registry.example.org/someone/kiln/kiln:v0.1.0\n", "value: registry.example.org/someone/kiln/kiln-launcher:v0.1.0\n"} {
		if !strings.Contains(install, want) {
			t.Errorf("install-rotation.yaml lacks '%s'", want)
		}
	}
	if krew := string(read(t, folder, "krew-kiln.yaml")); !strings.Contains(krew, "uri: https://example.org/files/kubectl-kiln-linux-amd64.tar.gz\n") {
		t.Errorf("krew's manifest names other files:\n%s", krew)
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
	if err := writeRelease(ctx, folder, small(t), targets[:1], places{}); err == nil {
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
		if _, err := (stamps{chartVersion: "1.0.0"}).apply("Chart.yaml", text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
}
