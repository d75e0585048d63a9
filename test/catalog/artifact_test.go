package catalog

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fluxcd/pkg/oci/client"
	"github.com/google/go-cmp/cmp"
)

// TestArtifact publishes a catalog, and reads it with Kiln, oras' command and Flux's code: all find the same files.
func TestArtifact(t *testing.T) {
	w := start(t)
	w.kiln("push", w.catalog(), w.general("1.0.0"))
	w.kiln("pull", w.general("1.0.0"), "--output-dir", "kiln")
	want := folder(t, filepath.Join(w.dir, "kiln"))
	if names := len(want); names != 5 || want["instancetypes/small.yaml"] == "" {
		t.Fatalf("Kiln read %d files: %v", names, want)
	}

	plain := strings.TrimPrefix(w.general("1.0.0"), "oci://")
	if _, errOut, status := w.run(filepath.Join(programs, "oras"), "pull", plain, "-o", "oras"); status != 0 {
		t.Fatalf("oras: %s", errOut)
	}
	if diff := cmp.Diff(want, archive(t, filepath.Join(w.dir, "oras", "catalog.tar.gz"))); diff != "" {
		t.Errorf("oras: %s", diff)
	}
	if raw, err := os.ReadFile(filepath.Join(w.dir, "oras", "index.json")); err != nil || !strings.Contains(string(raw), `"CatalogIndex"`) {
		t.Errorf("oras read no index: %v: %s", err, raw)
	}

	target := filepath.Join(w.dir, "flux")
	if err := os.Mkdir(target, 0o755); err != nil {
		t.Fatal(err)
	}
	meta, err := client.NewClient(client.DefaultOptions()).Pull(t.Context(), plain, target)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, folder(t, target)); diff != "" {
		t.Errorf("Flux: %s", diff)
	}
	if out := w.kiln("inspect", w.general("1.0.0")); !strings.Contains(out, meta.Digest[strings.Index(meta.Digest, "sha256:"):]) {
		t.Errorf("Flux read %s, Kiln %s", meta.Digest, out)
	}
}

// TestPassword publishes with another password and with none.
func TestPassword(t *testing.T) {
	w := start(t)
	folder := w.catalog()
	for name, change := range map[string]func(){
		"another password": func() { w.login("wrong") },
		"no password":      func() { w.write("config.json", "{}") },
	} {
		change()
		_, errOut, status := w.run(filepath.Join(programs, "kubectl-kiln"), "catalog", "push", folder, w.general("1.0.0"))
		if status != 2 || !strings.Contains(errOut, "docker login") {
			t.Errorf("%s: %d: %s", name, status, errOut)
		}
	}
}

// folder returns the files of a folder by name.
func folder(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := fs.WalkDir(os.DirFS(dir), ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		raw, err := os.ReadFile(filepath.Join(dir, path))
		all[path] = string(raw)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// archive returns the files of a gzipped tar archive by name.
func archive(t *testing.T, name string) map[string]string {
	t.Helper()
	file, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	plain, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for reader := tar.NewReader(plain); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return maps.Clone(all)
		}
		if err != nil {
			t.Fatal(err)
		}
		raw, err := io.ReadAll(reader)
		if err != nil {
			t.Fatal(err)
		}
		all[header.Name] = string(raw)
	}
}
