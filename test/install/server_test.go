package install

import (
	"encoding/base64"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kilnvm/kiln/test/cluster"
	"github.com/kilnvm/kiln/test/nightly"
	"github.com/kilnvm/kiln/test/poll"
)

// plane is a real API server without nodes: no pod runs, so that while Kiln is installed each VM is refused, and after an uninstall none.
type plane struct{ *cluster.Plane }

// TestOnServer shares one API server, which takes seconds to start. Each part leaves it empty.
func TestOnServer(t *testing.T) {
	t.Parallel()
	started, err := cluster.StartPlane("../..", t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := started.Close(); err != nil {
			t.Error(err)
		}
	})
	p := plane{started}
	t.Run("kubectl", p.withKubectl)
	t.Run("helm", p.withHelm)
	t.Run("beside KubeVirt", p.withKubeVirt)
	t.Run("the API server of subresources with kubectl", func(t *testing.T) {
		nightly.Only(t) // with Helm below; test/pods installs the overlay with kubectl
		const overlay = "../../manifests/overlays/apiserver"
		p.must(t, "apply", "--server-side", "-k", "../../manifests/crds")
		p.established(t)
		p.withAPIServer(t, func() { p.must(t, "apply", "--server-side", "-k", overlay) }, func() {
			p.must(t, "delete", "-k", overlay, "-l", "kilnvm.io/uninstall!=keep", "--ignore-not-found", "--timeout=60s")
		})
	})
	t.Run("the API server of subresources with helm", func(t *testing.T) {
		install := func() { p.helm(t, "install", "kiln", chart, "--set", "image.repository=kiln,apiserver.enabled=true") }
		p.withAPIServer(t, install, func() { p.helm(t, "uninstall", "kiln") })
	})
}

const machine = `
apiVersion: kubevirt.io/v1
kind: VirtualMachine
metadata: {name: NAME}
spec: {runStrategy: Halted, template: {spec: {domain: {memory: {guest: 128Mi}, devices: {}}}}}
`

// withKubectl installs and uninstalls with kubectl, also without the selector that spares the definitions.
func (p plane) withKubectl(t *testing.T) {
	p.must(t, "apply", "--server-side", "-k", "../../manifests/crds")
	p.established(t)
	p.create(t, "before", "")
	p.must(t, "apply", "--server-side", "-k", "../../manifests/overlays/rotation")
	p.eventually(t, "the webhook is asked", func() bool { return p.refused(t) })

	p.eventually(t, "the policy counts", func() bool {
		out, err := p.run("", p.Kubectl(), "delete", "crd", "virtualmachines.kubevirt.io", "--dry-run=server")
		return err != nil && strings.Contains(out, "Kiln is installed")
	})
	out, err := p.run("", p.Kubectl(), "delete", "-k", "../../manifests/overlays/rotation")
	if err == nil || !strings.Contains(out, "kilnvm.io/uninstall!=keep") {
		t.Errorf("without the selector: %v, want an error that names it:\n%s", err, out)
	}
	p.uninstalled(t)
	p.must(t, "apply", "--server-side", "-k", "../../manifests/overlays/rotation")
	p.eventually(t, "the webhook is asked again", func() bool { return p.refused(t) })
	// What docs/how-to/install.md says.
	p.must(t, "delete", "mutatingwebhookconfiguration/kiln-mutating", "validatingwebhookconfiguration/kiln-validating",
		"validatingwebhookconfiguration/kiln-policies")
	p.must(t, "delete", "--ignore-not-found", "apiservice/v1.subresources.kubevirt.io", "apiservice/v1alpha3.subresources.kubevirt.io")
	p.must(t, "delete", "-k", "../../manifests/overlays/rotation", "-l", "kilnvm.io/uninstall!=keep", "--ignore-not-found", "--timeout=60s")
	p.uninstalled(t)
	p.removed(t)
}

// withHelm installs, upgrades, uninstalls and installs again.
func (p plane) withHelm(t *testing.T) {
	if out, err := p.run("", helm, "install", "kiln", chart); err == nil || !strings.Contains(out, "set image.repository=HOST/kiln") {
		t.Fatalf("without an image: %v\n%s", err, out)
	}
	notes := p.helm(t, "install", "kiln", chart, "--set", "image.repository=kiln")
	for _, step := range []string{
		"rollout status -n kiln-system deployment/kiln-webhook", "kubectl kiln catalog install manifests/catalog", "kubectl create -f examples/vm.yaml",
		"clusterrolebinding prometheus-reads-kiln", "helm uninstall kiln",
	} {
		if !strings.Contains(notes, step) {
			t.Errorf("the notes do not name the step '%s':\n%s", step, notes)
		}
	}
	p.established(t)
	p.eventually(t, "the webhook is asked", func() bool { return p.refused(t) })
	raw := p.must(t, "get", "secret", "sh.helm.release.v1.kiln.v1", "-o", "jsonpath={.data.release}")
	stored, err := base64.StdEncoding.DecodeString(raw)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("Helm stores the release in %d KiB of the 1024 that a Secret has", len(stored)>>10)
	if len(stored) > 960<<10 {
		t.Error("the chart will soon be too large for Helm: leave descriptions out of its definitions")
	}

	p.upgraded(t)
	// What docs/how-to/install.md says, in its order.
	p.must(t, "delete", "mutatingwebhookconfiguration/kiln-mutating", "validatingwebhookconfiguration/kiln-validating",
		"validatingwebhookconfiguration/kiln-policies")
	p.create(t, "before", "")
	p.helm(t, "uninstall", "kiln")
	p.uninstalled(t)

	p.helm(t, "install", "kiln", chart, "--set", "image.repository=kiln") // it takes over what has stayed
	p.eventually(t, "the webhook is asked again", func() bool { return p.refused(t) })
	p.helm(t, "uninstall", "kiln")
	p.uninstalled(t)
	p.removed(t)
}

// everyValue changes every part of the objects that values may change, so that the API server judges it: selectors must stay.
const everyValue = `commonLabels.team=infra,webhook.podLabels.team=web,webhook.podAnnotations.example\.org/a=b,webhook.extraArgs={--log-refusals=info},` +
	`controller.extraEnv[0].name=HTTPS_PROXY,controller.extraEnv[0].value=http://proxy,configuration.developerConfiguration.useEmulation=true,` +
	`global.imagePullSecrets[0].name=registry,global.imageRegistry=registry.example.org,webhook.podDisruptionBudget.maxUnavailable=50%,` +
	`controller.podDisruptionBudget.enabled=false,webhook.topologySpreadConstraints[0].maxSkew=1,webhook.topologySpreadConstraints[0].topologyKey=zone,` +
	`webhook.topologySpreadConstraints[0].whenUnsatisfiable=ScheduleAnyway`

// upgraded upgrades to a chart whose definition has another column. What others wrote stays: the CA in the configurations of the webhooks.
func (p plane) upgraded(t *testing.T) {
	t.Helper()
	p.must(t, "patch", "mutatingwebhookconfiguration", "kiln-mutating", "--type=json",
		`-p=[{"op":"add","path":"/webhooks/0/clientConfig/caBundle","value":"`+base64.StdEncoding.EncodeToString([]byte(authorityPEM))+`"}]`)
	next := filepath.Join(t.TempDir(), "kiln")
	if err := os.CopyFS(next, os.DirFS(chart)); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(next, "templates/generated/definitions/virtualmachines.kubevirt.io.yaml")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(strings.Replace(string(text), "shortNames:\n", "shortNames:\n    - machine\n", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := p.run("", helm, "upgrade", "kiln", chart, "--set", "webhook.replicas=3"); err == nil || !strings.Contains(out, "image.repository") {
		t.Errorf("Helm has forgotten the image, and upgrades: %v\n%s", err, out)
	}
	p.helm(t, "upgrade", "kiln", next, "--reset-then-reuse-values", "--set", "webhook.replicas=3,"+everyValue)
	if names := p.must(t, "get", "crd", "virtualmachines.kubevirt.io", "-o", "jsonpath={.spec.names.shortNames}"); !strings.Contains(names, "machine") {
		t.Errorf("helm upgrade has not upgraded the definition: its short names are %s", names)
	}
	if got := p.must(t, "get", "-n", "kiln-system", "deployment", "kiln-webhook", "-o", "jsonpath={.spec.replicas}"); got != "3" {
		t.Errorf("%s replicas after the upgrade, want 3", got)
	}
	if got := p.must(t, "get", "mutatingwebhookconfiguration", "kiln-mutating", "-o", "jsonpath={.webhooks[0].clientConfig.caBundle}"); got == "" {
		t.Error("the upgrade has removed the CA, by which the API server trusts the webhook")
	}
}

// uninstalled: users' objects are there, and nothing keeps anybody from creating, editing and deleting more. What launchers need is there.
func (p plane) uninstalled(t *testing.T) {
	t.Helper()
	p.must(t, "get", "vm", "before")
	p.create(t, "after", "--dry-run=server")
	p.must(t, "label", "vm", "before", "edited=yes", "--overwrite")
	p.must(t, "get", "-n", "kiln-system", "serviceaccount", "kiln-launcher")
	p.must(t, "get", "-n", "kiln-launchers", "rolebinding", "kiln-launcher")
	launcher := "--as=system:serviceaccount:kiln-system:kiln-launcher"
	if out, err := p.run("", p.Kubectl(), "auth", "can-i", "update", "virtualmachineinstances", launcher); err != nil {
		t.Errorf("launchers of running guests have lost their rights: %s", out)
	}
	left := p.must(t, "get", "deployments,services,pdb,secrets,configmaps,roles", "-n", "kiln-system", "-o", "name")
	for name := range strings.Lines(left) {
		if !strings.Contains(name, "configmap/kube-root-ca.crt") {
			t.Errorf("%s is still there", strings.TrimSpace(name))
		}
	}
	kinds := "validatingadmissionpolicies,validatingadmissionpolicybindings,mutatingwebhookconfigurations,validatingwebhookconfigurations"
	if left := p.must(t, "get", kinds, "-l", "kilnvm.io/uninstall!=keep", "-o", "name"); left != "" {
		t.Errorf("still there:\n%s", left)
	}
}

// removed removes the rest, as docs/how-to/install.md says, and finds nothing of Kiln.
func (p plane) removed(t *testing.T) {
	t.Helper()
	kinds := strings.Split(strings.TrimSpace(p.must(t, "get", "crd", "-l", "kilnvm.io/uninstall=keep", "-o", "name")), "\n")
	for i, kind := range kinds {
		_, kinds[i], _ = strings.Cut(kind, "/")
	}
	if out := p.must(t, "get", "--all-namespaces", "-o", "name", strings.Join(kinds, ",")); !strings.Contains(out, "virtualmachine.kubevirt.io/before") {
		t.Errorf("the list of what goes lacks the VM:\n%s", out)
	}
	p.must(t, "delete", "vm", "--all")
	p.eventually(t, "the policy that keeps the definitions is forgotten", func() bool {
		const kinds = "crd,clusterrole,clusterrolebinding,namespace,validatingadmissionpolicy,validatingadmissionpolicybinding"
		out, err := p.run("", p.Kubectl(), "delete", kinds, "-l", "kilnvm.io/uninstall=keep", "--timeout=120s")
		if err != nil && !strings.Contains(out, "Kiln is installed") {
			t.Fatalf("%v\n%s", err, out)
		}
		return err == nil
	})
	out := p.must(t, "get", "crd,clusterroles,clusterrolebindings,namespaces,validatingadmissionpolicies,validatingadmissionpolicybindings", "-o", "name")
	for name := range strings.Lines(out) {
		if strings.Contains(name, "kiln") || strings.Contains(name, "kubevirt.io") {
			t.Errorf("%s is left", strings.TrimSpace(name))
		}
	}
}

// refused reports whether the creation of a VM fails because no webhook answers.
func (p plane) refused(t *testing.T) bool {
	t.Helper()
	out, err := p.run(strings.ReplaceAll(machine, "NAME", "probe"), p.Kubectl(), "create", "--dry-run=server", "-f", "-")
	return err != nil && strings.Contains(out, "failed calling webhook")
}

func (p plane) create(t *testing.T, name, flag string) {
	t.Helper()
	args := []string{"create", "-f", "-"}
	if flag != "" {
		args = append(args, flag)
	}
	p.eventually(t, "VM '"+name+"' is created", func() bool {
		out, err := p.run(strings.ReplaceAll(machine, "NAME", name), p.Kubectl(), args...)
		t.Log(strings.TrimSpace(out))
		return err == nil
	})
}

func (p plane) must(t *testing.T, args ...string) string {
	t.Helper()
	out, err := p.run("", p.Kubectl(), args...)
	if err != nil {
		t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

func (p plane) helm(t *testing.T, args ...string) string {
	t.Helper()
	out, err := p.run("", helm, args...)
	if err != nil {
		t.Fatalf("helm %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// run runs kubectl or Helm as the administrator, and returns its output.
func (p plane) run(input, program string, args ...string) (string, error) {
	command := exec.Command(program, args...)
	command.Env = append(os.Environ(), "KUBECONFIG="+p.Kubeconfig)
	command.Stdin = strings.NewReader(input)
	out, err := command.CombinedOutput()
	return string(out), err
}

// established waits until the API server serves all custom resources.
func (p plane) established(t *testing.T) {
	t.Helper()
	if err := cluster.Established(t.Context(), p.Kubeconfig); err != nil {
		t.Fatal(err)
	}
}

// eventually waits for what an API server does a moment later: it reads webhooks and policies by watches.
func (p plane) eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	if !poll.Until(time.Minute, holds) {
		t.Fatalf("never: %s", what)
	}
}

// authorityPEM is any certificate: an API server refuses a bundle without one.
const authorityPEM = `-----BEGIN CERTIFICATE-----
MIIBdDCCARmgAwIBAgIUfZgOVHv9herk4FC0eXsbULRgs2IwCgYIKoZIzj0EAwIw
DjEMMAoGA1UEAwwDYW55MCAXDTI2MTEyMjE5MzU1M1oYDzIxMjYxMDI5MTkzNTUz
WjAOMQwwCgYDVQQDDANhbnkwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAATJ0kd6
9ceDaIfAW4kiecOOwedVMj9eDdv/mBArt9r0Q/nyKiYoKgMY8xjpbAGaS/hb8eXd
7qC+h/Vh/d5HmqZyo1MwUTAdBgNVHQ4EFgQUtM6H5oo/sGDIJtDeDsbNFOKe5bYw
HwYDVR0jBBgwFoAUtM6H5oo/sGDIJtDeDsbNFOKe5bYwDwYDVR0TAQH/BAUwAwEB
/zAKBggqhkjOPQQDAgNJADBGAiEAnwswpKxRDS9VipAwjZwVkAotxginjVlpl8N/
ynCOesoCIQDgrFNoVeRiCxl29rbk8gmcFdH/FqxNDBTmTanNOBDyIQ==
-----END CERTIFICATE-----
`
