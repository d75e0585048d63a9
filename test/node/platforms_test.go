package node

import (
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/kilnvm/kiln/manifests/images/archive"
)

const platformsPod = `
apiVersion: v1
kind: Pod
metadata: {name: which}
spec:
  restartPolicy: Never
  nodeSelector: {kubernetes.io/hostname: node-1} # TestTwoNodes adds one that does not have the image
  containers:
  - {name: which, image: "platforms:1", args: [cat, /platform]}
`

// TestSeveralPlatforms: the node runs the image of its own platform from an archive with images of several platforms, as a release has.
func TestSeveralPlatforms(t *testing.T) {
	Require(t)
	program := filepath.Join(t.TempDir(), "probe")
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-o", program, "./probe")
	build.Env = append(build.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var images []archive.Image
	for _, architecture := range []string{"s390x", runtime.GOARCH} {
		root := &archive.Root{}
		if err := root.AddText("platform", "linux/"+architecture, 0o644); err != nil {
			t.Fatal(err)
		}
		if err := root.AddFile("probe", program, 0o755); err != nil {
			t.Fatal(err)
		}
		images = append(images, archive.Image{OS: "linux", Architecture: architecture, Root: root, Config: archive.Config{Entrypoint: []string{"/probe"}}})
	}
	file := filepath.Join(t.TempDir(), "platforms.tar")
	if err := archive.Write(file, "docker.io/library/platforms:1", images...); err != nil {
		t.Fatal(err)
	}
	shared.Import(t, file)
	namespace(t, "platforms", platformsPod)
	kubectl(t, "platforms", "wait", "--for=jsonpath={.status.phase}=Succeeded", "--timeout=120s", "pod/which")
	if platform := kubectl(t, "platforms", "logs", "which"); platform != "linux/"+runtime.GOARCH {
		t.Errorf("the node runs the image of '%s'", platform)
	}
}
