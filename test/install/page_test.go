package install

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/kilnvm/kiln/test/node"
	"github.com/kilnvm/kiln/test/page"
)

// TestInstallPage runs the commands of docs/how-to/install.md on a real node, with kubectl and with Helm. The node's API server has the configuration that the
// page makes for client certificates from its start.
func TestInstallPage(t *testing.T) {
	t.Parallel()
	node.Require(t)
	u := &user{T: t, bin: t.TempDir()}
	const certificates = "API servers with a client certificate"
	t.Cleanup(func() {
		for _, dir := range []string{"bin/clients", "bin/install"} {
			if err := os.RemoveAll(filepath.Join("../..", dir)); err != nil {
				t.Error(err)
			}
		}
	})
	asked := u.blocks(certificates)
	u.runAll(asked[:2])
	configuration, err := filepath.Abs("../../bin/clients/admission.yaml")
	if err != nil {
		t.Fatal(err)
	}
	u.node = node.Start(t, node.Options{APIServer: []string{"--admission-control-config-file=" + configuration}})
	u.commands()

	if n := u.admitted("With kubectl"); n > 10 {
		t.Errorf("%d commands lead to an admitted VM with kubectl, want at most ten", n)
	}
	u.runAll(asked[2:])
	u.answersOnlyAPIServers()
	u.leaves("Uninstall with kubectl")
	u.runAll(u.blocks("What stays"))
	if n := u.admitted("With Helm"); n > 10 {
		t.Errorf("%d commands lead to an admitted VM with Helm, want at most ten", n)
	}
	u.takesLateCertificates()
	u.leaves("Uninstall with Helm")
	u.runAll(u.blocks("What stays"))
	if left := u.run("kubectl get crd,namespaces,clusterroles -o name"); strings.Contains(left, "kiln") || strings.Contains(left, "kubevirt") {
		t.Errorf("after everything was removed for good:\n%s", left)
	}
}

// user has the commands of the page in a folder, and a node.
type user struct {
	*testing.T
	bin  string
	node *node.Node
	// imported is the block that has made the images and imported them.
	imported string
}

// commands puts kubectl, helm and ctr, with the node's containerd, where the shell finds them.
func (u *user) commands() {
	u.Helper()
	for name, command := range map[string]string{
		"kubectl": filepath.Join(u.node.Programs, "kubectl"), "helm": helm, "ctr": u.node.Ctr + " --address " + u.node.Containerd,
	} {
		if err := os.WriteFile(filepath.Join(u.bin, name), []byte("#!/bin/sh\nexec "+command+" \"$@\"\n"), 0o700); err != nil { //nolint:gosec // a program
			u.Fatal(err)
		}
	}
}

// blocks returns the code blocks of a section of the page.
func (u *user) blocks(section string) []page.Block {
	u.Helper()
	return page.Blocks(u, "../../docs/how-to/install.md", section)
}

// runAll runs blocks of commands. If a block shows an output, the commands before it must have printed it.
func (u *user) runAll(blocks []page.Block) {
	u.Helper()
	output := ""
	for _, block := range blocks {
		if block.Language == "sh" {
			output = u.run(block.Text)
			continue
		}
		pattern := strings.ReplaceAll(regexp.QuoteMeta(strings.TrimSpace(block.Text)), regexp.QuoteMeta("..."), ".*")
		if !regexp.MustCompile(pattern).MatchString(output) {
			u.Fatalf("the output has no '%s':\n%s", block.Text, output)
		}
	}
}

// run runs a block at the root of the repository; a command that fails ends it.
func (u *user) run(script string) string {
	u.Helper()
	command := exec.Command("bash", "-e", "-o", "pipefail", "-c", script)
	command.Dir = "../.."
	command.Env = append(os.Environ(), "PATH="+u.bin+":"+os.Getenv("PATH"))
	if u.node != nil {
		command.Env = append(command.Env, "KUBECONFIG="+u.node.Kubeconfig())
	}
	out, err := command.CombinedOutput()
	if err != nil {
		pods := ""
		if u.node != nil {
			pods, _ = u.node.Kubectl(u.Context(), "describe", "pods", "-n", "kiln-system")
		}
		u.Fatalf("%s\n%v:\n%s\n%s", script, err, out, pods)
	}
	return string(out)
}

// admitted runs a section that ends with an admitted VM, and counts its commands. The time begins with the one that installs: the images are made and
// imported before.
func (u *user) admitted(section string) (commands int) {
	u.Helper()
	blocks := u.blocks(section)
	for _, block := range blocks {
		if block.Language == "sh" {
			commands += len(regexp.MustCompile(`(?m)^(go|ctr|mkdir|cat|kubectl|helm) `).FindAllString(block.Text, -1))
		}
	}
	if blocks[0].Text != u.imported { // the sections begin with the same block, which links all programs
		u.runAll(blocks[:1])
		u.imported = blocks[0].Text
	}
	started := time.Now()
	u.runAll(blocks[1:])
	u.Logf("%s: %d commands, and %s from the one that installs until the VM is admitted (60 s is the goal)",
		section, commands, time.Since(started).Round(100*time.Millisecond))
	return commands
}

// leaves runs a section that uninstalls, while somebody creates VMs all the time: nobody is refused. Afterwards VMs are written, edited and deleted.
func (u *user) leaves(section string) {
	u.Helper()
	raw, err := os.ReadFile("../../examples/vm.yaml")
	if err != nil {
		u.Fatal(err)
	}
	probe := filepath.Join(u.bin, "probe.yaml")
	if err := os.WriteFile(probe, []byte(strings.Replace(string(raw), "name: demo", "generateName: probe-", 1)), 0o600); err != nil {
		u.Fatal(err)
	}
	stop, ended := make(chan struct{}), make(chan []string)
	go func() {
		var refused []string
		for {
			select {
			case <-stop:
				ended <- refused
				return
			default:
				out, err := u.node.Kubectl(u.Context(), "create", "--dry-run=server", "-f", probe)
				if err != nil {
					refused = append(refused, strings.TrimSpace(out))
				}
			}
		}
	}()
	u.runAll(u.blocks(section))
	close(stop)
	if refused := <-ended; len(refused) > 0 {
		u.Errorf("%s: %d creations of VMs were refused meanwhile, the first: %s", section, len(refused), refused[0])
	}
	u.run("kubectl label vm demo edited=yes && kubectl delete vm demo && kubectl create -f examples/vm.yaml && kubectl get vm demo")
}

// takesLateCertificates: the controller writes the certificates long after the pods of webhook and API server have started, and they are ready seconds later.
func (u *user) takesLateCertificates() {
	u.Helper()
	u.run("helm upgrade kiln manifests/chart/kiln --reset-then-reuse-values --set apiserver.enabled=true")
	u.run("kubectl scale -n kiln-system deployment/kiln-controller --replicas=0")
	u.run("kubectl wait -n kiln-system --for=delete --timeout=60s pod -l app.kubernetes.io/name=kiln-controller")
	for _, name := range []string{"kiln-webhook", "kiln-apiserver"} {
		u.run("kubectl patch secret -n kiln-system " + name + `-tls --type=merge -p '{"data":null}'`)
		u.run("kubectl delete pod -n kiln-system --grace-period=1 -l app.kubernetes.io/name=" + name)
		// Not ContainerCreating, as with a mount that waits.
		u.run("kubectl wait -n kiln-system --for=jsonpath={.status.phase}=Running --timeout=60s pod -l app.kubernetes.io/name=" + name)
	}
	time.Sleep(10 * time.Second)
	u.run("kubectl scale -n kiln-system deployment/kiln-controller --replicas=2")
	for _, name := range []string{"webhook", "apiserver"} {
		u.run(fmt.Sprintf(`kubectl wait -n kiln-system --for=jsonpath='{.data.tls\.crt}' --timeout=60s secret/kiln-%s-tls`, name))
		started := time.Now()
		u.run("kubectl wait -n kiln-system --for=condition=Available --timeout=120s deployment/kiln-" + name)
		took := time.Since(started)
		u.Logf("kiln-%s is available %s after its certificate", name, took.Round(100*time.Millisecond))
		const annotation = ` -o 'jsonpath={.items[*].metadata.annotations.kilnvm\.io/remounted}'`
		asked := u.run("kubectl get pod -n kiln-system -l app.kubernetes.io/name=kiln-" + name + annotation)
		if took > 15*time.Second || len(strings.Fields(asked)) == 0 {
			u.Errorf("kiln-%s took %s; kubelet was asked to look at '%s'", name, took, asked)
		}
	}
}

// answersOnlyAPIServers: the API server, which has a certificate, gets a VM admitted, and the test, which has none, gets status 403.
func (u *user) answersOnlyAPIServers() {
	u.Helper()
	u.run("kubectl label vm demo asked=yes")
	u.run("kubectl patch vm demo --type=merge -p '{\"spec\":{\"template\":{\"metadata\":{\"labels\":{\"a\":\"b\"}}}}}'")
	address := strings.TrimSpace(u.run("kubectl get service -n kiln-system kiln-webhook -o jsonpath={.spec.clusterIP}"))
	client := &http.Client{Transport: &http.Transport{
		DialContext: u.node.Dial, DisableKeepAlives: true,
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // who serves is not the question
	}}
	// Pods of before the change answer until they have ended, which 'kubectl rollout status' does not wait for.
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(time.Second) {
		status, body := u.post(client, fmt.Sprintf("https://%s/mutate/virtualmachines", net.JoinHostPort(address, "443")))
		if status == http.StatusForbidden && strings.Contains(body, "client certificate") {
			return
		}
		if time.Now().After(deadline) {
			u.Fatalf("without a certificate: status %d, '%s'", status, body)
		}
	}
}

// post returns status and body of the answer to a request that is no AdmissionReview.
func (u *user) post(client *http.Client, to string) (status int, message string) {
	u.Helper()
	response, err := client.Post(to, "application/json", strings.NewReader("{}"))
	if err != nil {
		return 0, err.Error() // a pod that ends
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, err.Error()
	}
	return response.StatusCode, string(content)
}
