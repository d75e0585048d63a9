package archive

import (
	"archive/tar"
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/validate"
	"oras.land/oras-go/v2/content/oci"
)

const name = "docker.io/library/demo:v1"

var config = Config{
	Entrypoint: []string{"/bin/demo"}, User: "65532:65532", Env: []string{"A=b"}, Labels: map[string]string{"org.opencontainers.image.version": "v1"},
}

// folder writes a root file system. Each call uses another folder, order, time and umask-like mode of folders above.
func folder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	files := []string{"usr/lib/b.so", "usr/bin/demo", "etc/\u00fc.conf"}
	for _, file := range files {
		path := filepath.Join(dir, file)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, time.Now(), time.Now().Add(-time.Hour)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("usr/bin", filepath.Join(dir, "bin")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/etc/passwd", filepath.Join(dir, "etc/outside")); err != nil {
		t.Fatal(err)
	}
	return dir
}

// written returns the bytes of an archive of the folder.
func written(t *testing.T, platforms ...string) (file string, content []byte) {
	t.Helper()
	var images []Image
	for _, architecture := range platforms {
		root := &Root{}
		if err := root.AddFolder(folder(t)); err != nil {
			t.Fatal(err)
		}
		images = append(images, Image{OS: "linux", Architecture: architecture, Root: root, Config: config})
	}
	file = filepath.Join(t.TempDir(), "demo.tar")
	if err := Write(file, name, images...); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return file, content
}

// TestSameBytes: two builds in different folders at different times have the same bytes.
func TestSameBytes(t *testing.T) {
	t.Parallel()
	for _, platforms := range [][]string{{"amd64"}, {"amd64", "arm64"}} {
		file, first := written(t, platforms...)
		_, second := written(t, platforms...)
		if !bytes.Equal(first, second) {
			t.Errorf("%v: two builds of one folder differ", platforms)
		}
		if left, err := filepath.Glob(filepath.Join(filepath.Dir(file), ".image-*")); err != nil || len(left) != 0 {
			t.Errorf("left behind: %v %v", left, err)
		}
	}
	root := &Root{}
	if err := root.AddText("other", "other", 0o644); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "other.tar")
	if err := Write(file, name, Image{OS: "linux", Architecture: "amd64", Root: root, Config: config}); err != nil {
		t.Fatal(err)
	}
	other, err := os.ReadFile(file)
	if _, first := written(t, "amd64"); err != nil || bytes.Equal(first, other) {
		t.Errorf("two contents have the same bytes: %v", err)
	}
}

// unpackArchive writes the archive's layout into a folder.
func unpackArchive(t *testing.T, content []byte) string {
	t.Helper()
	dir := t.TempDir()
	archive := tar.NewReader(bytes.NewReader(content))
	for {
		header, err := archive.Next()
		if err == io.EOF {
			return dir
		}
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, header.Name)
		if header.Typeflag == tar.TypeDir {
			err = os.MkdirAll(path, 0o755)
		} else if raw, readErr := io.ReadAll(archive); readErr != nil {
			t.Fatal(readErr)
		} else {
			err = os.WriteFile(path, raw, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestLayout: libraries of others read the image, by its names, with what was asked for.
func TestLayout(t *testing.T) {
	t.Parallel()
	_, content := written(t, "amd64")
	dir := unpackArchive(t, content)
	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]string{"io.containerd.image.name": name, "org.opencontainers.image.ref.name": "v1"}
	if diff := cmp.Diff(names, manifest.Manifests[0].Annotations); diff != "" {
		t.Error(diff)
	}
	image, err := index.Image(manifest.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Image(image); err != nil {
		t.Error(err)
	}
	described(t, image)
	store, err := oci.NewFromFS(t.Context(), os.DirFS(dir))
	if err != nil {
		t.Fatal(err)
	}
	if found, err := store.Resolve(t.Context(), "v1"); err != nil || found.Digest.String() != manifest.Manifests[0].Digest.String() {
		t.Errorf("oras finds '%s' %v, want '%s'", found.Digest, err, manifest.Manifests[0].Digest)
	}
}

// described: the configuration says what was asked for, and the layer has the folder's content.
func described(t *testing.T, image v1.Image) {
	t.Helper()
	file, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	want := v1.Config{Entrypoint: config.Entrypoint, User: config.User, Env: config.Env, Labels: config.Labels}
	if diff := cmp.Diff(want, file.Config); diff != "" || file.OS != "linux" || file.Architecture != "amd64" || file.Created.Unix() != 0 {
		t.Errorf("%+v: %s", file, diff)
	}
	manifest, err := image.Manifest()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(config.Labels, manifest.Annotations); diff != "" {
		t.Error(diff)
	}
	got := entries(t, mutate.Extract(image))
	const listed = "L bin -> usr/bin\nd etc\nL etc/outside -> /etc/passwd\n- etc/\u00fc.conf 'etc/\u00fc.conf'\nd usr\nd usr/bin\n" +
		"- usr/bin/demo 'usr/bin/demo'\nd usr/lib\n- usr/lib/b.so 'usr/lib/b.so'\n"
	if diff := cmp.Diff(listed, got); diff != "" {
		t.Error(diff)
	}
}

// entries returns the list of a tar archive, and complains about owners and times.
func entries(t *testing.T, from io.Reader) string {
	t.Helper()
	var list strings.Builder
	archive := tar.NewReader(from)
	for {
		header, err := archive.Next()
		if err == io.EOF {
			return list.String()
		}
		if err != nil {
			t.Fatal(err)
		}
		if header.Uname != "" || header.Gname != "" || header.ModTime.Unix() != 0 {
			t.Errorf("%s: '%s' '%s' %s", header.Name, header.Uname, header.Gname, header.ModTime)
		}
		switch path := strings.TrimSuffix(header.Name, "/"); header.Typeflag {
		case tar.TypeDir:
			list.WriteString("d " + path + "\n")
		case tar.TypeSymlink:
			list.WriteString("L " + path + " -> " + header.Linkname + "\n")
		case tar.TypeLink:
			list.WriteString("H " + path + " -> " + header.Linkname + "\n")
		default:
			content, err := io.ReadAll(archive)
			if err != nil {
				t.Fatal(err)
			}
			list.WriteString("- " + path + " '" + string(content) + "'\n")
		}
	}
}

// TestSeveralPlatforms: the archive has one index, with an image for each platform.
func TestSeveralPlatforms(t *testing.T) {
	t.Parallel()
	_, content := written(t, "amd64", "arm64")
	index, err := layout.ImageIndexFromPath(unpackArchive(t, content))
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(index); err != nil {
		t.Error(err)
	}
	top, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	if len(top.Manifests) != 1 || top.Manifests[0].Annotations["io.containerd.image.name"] != name {
		t.Fatalf("%+v", top.Manifests)
	}
	inner, err := index.ImageIndex(top.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	platforms, err := inner.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range platforms.Manifests {
		got = append(got, m.Platform.String())
	}
	if diff := cmp.Diff([]string{"linux/amd64", "linux/arm64"}, got); diff != "" {
		t.Error(diff)
	}
}

// TestNames: an image without a tag could be found by nobody.
func TestNames(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"", "kiln", "docker.io/library/kiln", "kiln:not a tag", "../kiln:v1"} {
		err := Write(filepath.Join(t.TempDir(), "x.tar"), bad, Image{OS: "linux", Architecture: "amd64", Root: &Root{}})
		if err == nil || !strings.Contains(err.Error(), "with a tag") {
			t.Errorf("'%s': %v", bad, err)
		}
	}
}
