package e2e

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/test/registry"
	"sigs.k8s.io/yaml"
)

// shop is an administrator's shell: an empty folder, a cluster with the namespace of the test, a registry over TLS, and a pair of keys.
type shop struct {
	space
	dir, host string
	// stopRegistry has the registry answer no more.
	stopRegistry func()
	env          []string
}

// newShop does not run at the same time as other tests: launchers of theirs would take its VMs.
func newShop(t *testing.T) shop {
	t.Helper()
	s := newSpaceOn(t, shared)
	server := registry.Start(t, nil)
	h := shop{space: s, dir: t.TempDir(), host: server.Host, stopRegistry: server.Stop}
	settings := t.TempDir() // the folder of the walk contains only the keys
	h.writeKeys()
	raw, err := os.ReadFile(s.on.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig := filepath.Join(settings, "kubeconfig")
	if err := os.WriteFile(kubeconfig, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	s.must(s.kubectl("", "config", "set-context", "--current", "--namespace="+s.name, "--kubeconfig="+kubeconfig))
	h.env = append(os.Environ(), "KUBECONFIG="+kubeconfig, "DOCKER_CONFIG="+settings, "SSL_CERT_FILE="+server.Authority,
		"COSIGN_PASSWORD="+keyPassword, "PATH="+filepath.Dir(s.on.Program("kubectl-kiln"))+":"+os.Getenv("PATH"))
	return h
}

// keyPassword is the password of cosign.key.
const keyPassword = "secret"

// writeKeys writes cosign.key and cosign.pub as 'cosign generate-key-pair' does.
func (h shop) writeKeys() {
	h.Helper()
	private, public := registry.Keys(h.T, keyPassword)
	for name, raw := range map[string][]byte{"cosign.key": private, "cosign.pub": public} {
		if err := os.WriteFile(filepath.Join(h.dir, name), raw, 0o600); err != nil {
			h.Fatal(err)
		}
	}
}

// run runs a script in the folder. Its first command that fails ends it.
func (h shop) run(script string) (output string, status int) {
	h.Helper()
	ctx, cancel := context.WithTimeout(h.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", script)
	cmd.Dir, cmd.Env = h.dir, h.env
	out, err := cmd.CombinedOutput()
	return string(out), h.status(answer{err: err})
}

// want runs a script that must succeed, and returns what it prints.
func (h shop) want(script string) string {
	h.Helper()
	output, status := h.run(script)
	if status != 0 {
		h.Fatalf("%s\nexit status %d:\n%s", script, status, output)
	}
	return output
}

// awaitCreation waits until the webhooks, which read objects by watches, judge a new VM by what was installed: as often in a row as
// leaves no replica out.
func (h shop) awaitCreation(what, manifest string, judged func(answer) bool) {
	h.Helper()
	row := 0
	h.eventually(what, func() bool {
		if row++; !judged(h.kubectl(manifest, "create", "--dry-run=server", "-o", "yaml", "-f", "-")) {
			row = 0
		}
		return row == 4
	})
}

// running returns what must not change of a VM: its spec and pins, the content of its revisions, and the spec of its VMI.
func (h shop) running(name string) string {
	h.Helper()
	vm, vmi := h.get("vm", name), h.get("vmi", name)
	parts := map[string]any{"vm": field(vm, "spec"), "vmi": field(vmi, "spec"), "pins": vm.GetAnnotations()[pinsAnnotation]}
	for _, revision := range pins(h.T, vm) {
		parts[revision] = field(h.get("controllerrevision", revision), "data")
	}
	raw, err := yaml.Marshal(parts)
	if err != nil {
		h.Fatal(err)
	}
	return string(raw)
}

// same expects that a VM and its VMI are what they were.
func (h shop) same(when, name, before string) {
	h.Helper()
	if diff := cmp.Diff(before, h.running(name)); diff != "" {
		h.Fatalf("%s: VM '%s' has changed (-before +after)\n%s", when, name, diff)
	}
}

// uninstalled removes the VMs of a test and then its catalog, which another run of the test installs again.
func (h shop) uninstalled(catalog string) {
	h.kubectlAfter("delete", "vm,vmi", "--all", "--timeout=60s")
	h.kubectlAfter("delete", "virtualmachineclusterinstancetype,virtualmachineclusterpreference", "-l", "kilnvm.io/catalog="+catalog)
}
