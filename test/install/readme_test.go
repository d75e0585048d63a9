package install

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// TestReadmeInstallsItsImages: each 'helm install' of the README has all images, also those that the controller starts, from the registry that it names. A
// release with an image of no registry ends in ImagePullBackOff.
func TestReadmeInstallsItsImages(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	commands := regexp.MustCompile(`(?m)^    helm install kiln manifests/chart/kiln (.*)$`).FindAllStringSubmatch(string(readme), -1)
	if len(commands) < 2 {
		t.Fatalf("the README has %d commands of Helm, want one beside KubeVirt and one without", len(commands))
	}
	containers := regexp.MustCompile(`(?m)^\s*(?:- )?image: *"?([^\s"]+)`)
	guests := regexp.MustCompile(`name: LAUNCHER_IMAGE\s+value: *"?([^\s"]+)`)
	for _, command := range commands {
		values := strings.NewReplacer("HOST", "registry.example.org", "TAG", "v1").Replace(command[1])
		out, err := exec.Command(helm, append([]string{"template", "kiln", chart, "--kube-version", "1.34"}, strings.Fields(values)...)...).Output()
		if err != nil {
			t.Fatalf("helm template %s: %v", values, err)
		}
		found := containers.FindAllStringSubmatch(string(out), -1)
		if !strings.Contains(values, "kubevirt.beside=true") { // there the controller starts the image only with kubevirt.pinHardware
			found = append(found, guests.FindAllStringSubmatch(string(out), -1)...)
		}
		if len(found) < 2 {
			t.Errorf("%s: %d images, want at least the images of webhook and controller", values, len(found))
		}
		for _, match := range found {
			if name := match[1]; !strings.HasPrefix(name, "registry.example.org/") || !strings.HasSuffix(name, ":v1") {
				t.Errorf("%s: image %s is of no registry that the command names", values, name)
			}
		}
	}
}
