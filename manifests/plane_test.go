package manifests_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// webhookAccount is whom the policy and the roles in this directory are about.
const webhookAccount = "system:serviceaccount:kiln-system:kiln-webhook"

// plane is a real API server, with the controllers that make deletion work.
type plane struct {
	Kubeconfig string            `json:"kubeconfig"`
	Users      map[string]string `json:"users"`
	Bin        string            `json:"bin"`
}

// startPlane runs test/controlplane, which ends with its standard input, however this process ends.
func startPlane(t *testing.T) plane {
	t.Helper()
	dir := t.TempDir()
	binary := filepath.Join(dir, "controlplane")
	if out, err := exec.Command("go", "build", "-C", "../test/controlplane", "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("building the control plane's supervisor: %v\n%s", err, out)
	}
	cmd := exec.Command(binary, "run", "--dir", dir, "--user", webhookAccount+"=system:serviceaccounts,system:authenticated")
	var log bytes.Buffer
	cmd.Stderr = &log
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("control plane: %v\n%s", err, log.String())
		}
	})
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err != nil {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		t.Fatalf("control plane: %v", err)
	}
	var p plane
	if err := json.Unmarshal(line, &p); err != nil {
		t.Fatal(err)
	}
	return p
}

// try runs the real kubectl as a user, or as the administrator when that is empty, and gives all it said.
func (p plane) try(user, input string, args ...string) (string, error) {
	kubeconfig := p.Kubeconfig
	if user != "" {
		kubeconfig = p.Users[user]
	}
	cmd := exec.Command(filepath.Join(p.Bin, "kubectl"), args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig)
	cmd.Stdin = strings.NewReader(input)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// kubectl is try as the administrator for what must succeed.
func (p plane) kubectl(t *testing.T, input string, args ...string) string {
	t.Helper()
	out, err := p.try("", input, args...)
	if err != nil {
		t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// documents decodes YAML documents, one after the other.
func documents(t *testing.T, text string) []*unstructured.Unstructured {
	t.Helper()
	var all []*unstructured.Unstructured
	decoder := yaml.NewYAMLOrJSONDecoder(strings.NewReader(text), 4096)
	for {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(&object.Object)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		if len(object.Object) > 0 {
			all = append(all, object)
		}
	}
}
