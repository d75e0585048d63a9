package node

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kilnvm/kiln/test/cluster"
)

// kilnPod starts a program of the image 'kiln' as the Deployments do: without root, without capabilities, on a root file system that nobody can write.
const kilnPod = `
---
apiVersion: v1
kind: Pod
metadata: {name: %s}
spec:
  restartPolicy: Never
  automountServiceAccountToken: false
  securityContext: {runAsNonRoot: true, runAsUser: 65532, seccompProfile: {type: RuntimeDefault}}
  containers:
  - name: kiln
    image: kiln:proof
    command: [/%s]
    args: [version]
    securityContext: {allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: {drop: [ALL]}}
`

const restricted = `
apiVersion: v1
kind: Namespace
metadata: {name: image-of-kiln, labels: {pod-security.kubernetes.io/enforce: restricted}}
`

// TestImageOfKiln: containerd takes the archive of manifests/images, and each program of the image tells its version under the strictest Pod Security.
func TestImageOfKiln(t *testing.T) {
	Require(t)
	dir, err := cluster.Dir("kiln-image")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	build := exec.CommandContext(t.Context(), "go", "run", "./manifests/images", "-o", dir, "-version", "proof", "kiln")
	build.Dir = "../.."
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	shared.Import(t, filepath.Join(dir, "kiln.tar"))
	programs := map[string]string{"webhook": "webhook", "controller": "controller", "kubectl-kiln": "kubectl kiln"}
	objects := restricted
	for program := range programs {
		objects += fmt.Sprintf(kilnPod, program, program)
	}
	namespace(t, "image-of-kiln", objects)
	for program, name := range programs {
		kubectl(t, "image-of-kiln", "wait", "--for=jsonpath={.status.phase}=Succeeded", "--timeout=120s", "pod/"+program)
		logs := kubectl(t, "image-of-kiln", "logs", program)
		if !strings.HasPrefix(logs, name+" version proof, ") || !strings.Contains(logs, "\nAPIs: kubevirt.io/v1, ") {
			t.Errorf("%s says '%s'", program, logs)
		}
	}
	// The label counts: the same pod as root is refused.
	file := filepath.Join(t.TempDir(), "root.yaml")
	asRoot := strings.Replace(fmt.Sprintf(kilnPod, "root", "webhook"), "runAsNonRoot: true, runAsUser: 65532", "runAsUser: 0", 1)
	if err := os.WriteFile(file, []byte(asRoot), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := shared.Kubectl(t.Context(), "--namespace", "image-of-kiln", "apply", "-f", file); err == nil || !strings.Contains(out, "violates PodSecurity") {
		t.Errorf("a pod of root: %v %s", err, out)
	}
}
