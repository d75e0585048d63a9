package kiln

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/manifests/images/containerfile"
	"github.com/kilnvm/kiln/manifests/images/programs"
	apps "k8s.io/api/apps/v1"
	"sigs.k8s.io/yaml"
)

// small is a module with programs of Kiln's names that do nothing.
func small(t *testing.T) programs.Sources {
	t.Helper()
	dir := t.TempDir()
	files := map[string]string{"go.mod": "module github.com/kilnvm/kiln\n\ngo 1.26\n"}
	for _, name := range Programs {
		files["cmd/"+name+"/main.go"] = "package main\n\nfunc main() {}\n"
	}
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return programs.Sources{Module: dir, Version: "v1", Revision: "4f1c"}
}

// TestContainerfile: who builds the image with podman or docker gets the same files, the same account and the same program.
func TestContainerfile(t *testing.T) {
	t.Parallel()
	image, err := Image(t.Context(), small(t), programs.Platform{OS: "linux", Architecture: "amd64"}, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("Containerfile")
	if err != nil {
		t.Fatal(err)
	}
	stated, err := containerfile.Read(string(text), strings.NewReplacer("$VERSION", "v1", "$REVISION", "4f1c"))
	if err != nil {
		t.Fatal(err)
	}
	var files []string
	for _, target := range stated.Copies {
		files = append(files, strings.TrimPrefix(target, "/"))
	}
	slices.Sort(files)
	if diff := cmp.Diff(image.Root.Paths(), files); diff != "" {
		t.Errorf("files: -builder +Containerfile\n%s", diff)
	}
	if diff := cmp.Diff(image.Config, stated.Config); diff != "" {
		t.Errorf("configuration: -builder +Containerfile\n%s", diff)
	}
}

// TestDeployments: the Deployments start programs that the image has, as the account that it has.
func TestDeployments(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"webhook", "controller"} {
		raw, err := os.ReadFile(filepath.Join("..", "..", name, "deployment.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		documents := strings.Split(string(raw), "\n---\n")
		var d apps.Deployment
		if err := yaml.UnmarshalStrict([]byte(documents[len(documents)-1]), &d); err != nil {
			t.Fatal(err)
		}
		pod := d.Spec.Template.Spec
		container := pod.Containers[0]
		if container.Image != "kiln" || !slices.Equal(container.Command, []string{"/" + name}) || !slices.Contains(Programs, name) {
			t.Errorf("%s starts %q of '%s'", name, container.Command, container.Image)
		}
		if *pod.SecurityContext.RunAsUser != 65532 || !strings.HasPrefix(User, "65532:") || !strings.Contains(passwd, ":65532:65532:") {
			t.Errorf("%s runs as %d, the image has %s", name, *pod.SecurityContext.RunAsUser, User)
		}
	}
}
