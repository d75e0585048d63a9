package install

import (
	"bufio"
	"bytes"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/kilnvm/kiln/test/node"
	"github.com/kilnvm/kiln/test/registry"
)

// TestRunInACluster: with KUBECONFIG and REGISTRY, 'make run' pushes an image, installs Kiln in pods beside the cluster's KubeVirt, judges only its own
// namespace, and at Ctrl-C leaves the cluster as it was. KubeVirt's definitions, its object and its Deployment are there, and none of its programs runs.
func TestRunInACluster(t *testing.T) {
	t.Parallel()
	node.Require(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	n := node.Start(t, node.Options{})
	inside, err := n.Listen(t.Context(), "tcp", listener.Addr().String()) // the node pulls from the same address
	if err != nil {
		t.Fatal(err)
	}
	registry.Serve(t, listener, inside)
	u := &user{T: t, bin: t.TempDir(), node: n}
	u.commands()
	definitions := filepath.Join(t.TempDir(), "kubevirt.yaml")
	if err := os.WriteFile(definitions, []byte(kubeVirtDefinitions(t)), 0o600); err != nil {
		t.Fatal(err)
	}
	u.run("kubectl apply --server-side -f " + definitions + " && kubectl wait --for=condition=Established crd --all && kubectl create namespace cnv")
	u.run(`kubectl create -f - <<< '{"apiVersion": "kubevirt.io/v1", "kind": "KubeVirt", "metadata": {"name": "kubevirt", "namespace": "cnv"}}'`)
	// A Deployment without replicas counts: somebody may scale it up.
	u.run("kubectl create deployment virt-controller -n cnv --image=registry.example/virt-controller --replicas=0")
	before := u.run(listOfAll)

	demo := filepath.Join(t.TempDir(), "demo")
	command(t, "../..", "go", "build", "-o", demo, "./test/demo")
	cmd := exec.Command(demo)
	cmd.Dir = "../.."
	cmd.Env = append(os.Environ(), "KUBECONFIG="+n.Kubeconfig(), "REGISTRY="+listener.Addr().String()+"/team", "RUNTIME=", "NODE_IMAGE=", "WEBHOOK_HOST=")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var failed bytes.Buffer
	cmd.Stderr = &failed
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() }) // it has ended, unless the test failed
	var output strings.Builder
	for lines := bufio.NewScanner(out); lines.Scan(); {
		output.WriteString(lines.Text() + "\n")
		if !strings.Contains(lines.Text(), "Kiln stays until Ctrl-C") {
			continue
		}
		if pods := u.run("kubectl get pods -n kiln-system -o jsonpath='{.items[*].spec.containers[*].image}'"); !strings.Contains(pods, "/team/kiln@sha256:") {
			t.Errorf("the pods have the images '%s'", pods)
		}
		// In a namespace of the user's nothing is judged.
		if vm := u.run(`sed 's/name: demo/name: other/' examples/vm.yaml | kubectl create --dry-run=server -o yaml -f -`); strings.Contains(vm, "kilnvm.io/") {
			t.Errorf("a VM of another namespace is changed: %s", vm)
		}
		if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
			t.Fatal(err)
		}
	}
	err = cmd.Wait()
	for _, want := range []string{"beside the KubeVirt in namespace 'cnv'", "spec.template.spec.domain", `"instancetype":"small-`, "removing Kiln"} {
		if !strings.Contains(output.String(), want) {
			t.Errorf("it does not print '%s'", want)
		}
	}
	if err != nil || t.Failed() {
		t.Fatalf("%v:\n%s%s", err, output.String(), failed.String())
	}
	if after := u.run(listOfAll); after != before {
		t.Errorf("the cluster had\n%s\nand has\n%s", before, after)
	}
}

// listOfAll lists what 'make run' creates in a cluster, by name.
const listOfAll = "kubectl get crd,namespaces,clusterroles,clusterrolebindings,validatingwebhookconfigurations,mutatingwebhookconfigurations," +
	"validatingadmissionpolicies,validatingadmissionpolicybindings -o name && kubectl get vm,roles,rolebindings -A -o name"
