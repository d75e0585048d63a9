package install

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

const besideOverlay = "../../manifests/overlays/beside-kubevirt"

// kubeVirt is a KubeVirt in another namespace than its own manifests have, as far as Kiln looks for it.
const kubeVirt = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: kubevirts.kubevirt.io}
spec:
  group: kubevirt.io
  scope: Namespaced
  names: {kind: KubeVirt, plural: kubevirts}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
`

// withKubeVirt adds Kiln to a cluster that has KubeVirt's definitions and VMs, and takes it away by one command, with kubectl and with Helm.
func (p plane) withKubeVirt(t *testing.T) {
	p.definesKubeVirt(t)
	p.must(t, "create", "namespace", "cnv")
	if out, err := p.run(`{"apiVersion": "kubevirt.io/v1", "kind": "KubeVirt", "metadata": {"name": "kubevirt", "namespace": "cnv"}}`,
		p.Kubectl(), "create", "-f", "-"); err != nil {
		t.Fatal(out)
	}
	p.create(t, "before", "")
	theirs := p.definitions(t)
	for _, way := range []struct {
		name, namespace string
		add, remove     func()
	}{
		{"kubectl", "kubevirt", func() { p.must(t, "apply", "--server-side", "-k", besideOverlay) }, func() {
			p.must(t, "delete", "-k", besideOverlay, "-l", "kilnvm.io/uninstall!=keep", "--ignore-not-found", "--timeout=60s")
		}},
		{
			"helm", "cnv", func() { p.helm(t, "install", "kiln", chart, "--set", "image.repository=kiln,kubevirt.beside=true") },
			func() { p.helm(t, "uninstall", "kiln") },
		},
	} {
		way.add()
		p.eventually(t, way.name+": the webhook is asked", func() bool { return p.refusedProfile() })
		p.create(t, "unjudged", "--dry-run=server") // no VM waits for a webhook that does not answer
		p.knows(t, way.namespace)
		if got := p.definitions(t); got != theirs {
			t.Errorf("%s has changed KubeVirt's definitions, whose versions were\n%s\nand are\n%s", way.name, theirs, got)
		}
		way.remove()
		p.freed(t, way.name)
		if got := p.definitions(t); got != theirs {
			t.Errorf("%s has changed or deleted KubeVirt's definitions on its way out:\n%s\n%s", way.name, theirs, got)
		}
		p.goneForGood(t)
	}
	p.must(t, "get", "vm", "before")
	p.must(t, "delete", "vm,kubevirt", "--all", "--all-namespaces")
	p.must(t, "delete", "crd", "--all", "--timeout=120s")
}

// goneForGood removes what an uninstall leaves, by name, as docs/how-to/install-beside-kubevirt.md says. The API server forgets policies some seconds after
// they are deleted.
func (p plane) goneForGood(t *testing.T) {
	t.Helper()
	page, err := os.ReadFile("../../docs/how-to/install-beside-kubevirt.md")
	if err != nil {
		t.Fatal(err)
	}
	_, commands, _ := strings.Cut(string(page), "To remove them for good:\n")
	commands, _, _ = strings.Cut(commands, "\nDo not delete")
	// Trap: the API server lists the objects of a definition that is deleted. If nobody has read them before, it is not ready to list them, and after some
	// attempts within a second it waits for minutes.
	p.eventually(t, "Kiln's kinds are served", func() bool {
		_, err := p.run("", p.Kubectl(), "get", "--all-namespaces", "guestprofiles,clusterguestprofiles,guestpolicies,guesthardwares,hostprofiles,frontendprofiles")
		return err == nil
	})
	p.eventually(t, "Kiln's definitions and its namespace go for good", func() bool {
		out, err := p.run("", "bash", "-e", "-c", "kubectl() { "+p.Kubectl()+" \"$@\" --timeout=120s --ignore-not-found; }\n"+commands)
		if err != nil && !strings.Contains(out, "Kiln is installed") {
			t.Fatal(out)
		}
		return err == nil
	})
	if left := p.must(t, "get", "crd,clusterroles,clusterrolebindings,namespaces", "-o", "name"); strings.Contains(left, "kiln") {
		t.Errorf("after everything was removed for good:\n%s", left)
	}
}

// definesKubeVirt applies the definitions of KubeVirt's kinds, without Kiln's label.
func (p plane) definesKubeVirt(t *testing.T) {
	t.Helper()
	if out, err := p.run(kubeVirtDefinitions(t), p.Kubectl(), "apply", "--server-side", "-f", "-"); err != nil {
		t.Fatal(out)
	}
	p.established(t)
}

// kubeVirtDefinitions returns the definitions of KubeVirt's kinds, without Kiln's label.
func kubeVirtDefinitions(t *testing.T) string {
	t.Helper()
	all := kubeVirt
	for id, object := range kustomized(t, "resources: [%[1]s/crds]\n") {
		if !strings.HasSuffix(id, "kubevirt.io") {
			continue
		}
		delete(object.(map[string]any)["metadata"].(map[string]any), "labels")
		document, err := yaml.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		all += "---\n" + string(document)
	}
	return all
}

// definitions are KubeVirt's with what their metadata says of changes.
func (p plane) definitions(t *testing.T) string {
	t.Helper()
	return p.must(t, "get", "crd", "-l", "kilnvm.io/uninstall!=keep",
		"-o", `jsonpath={range .items[*]}{.metadata.name} {.metadata.uid} {.metadata.generation} {.metadata.labels}{"\n"}{end}`)
}

// knows: webhooks, policies and processes have the namespace of KubeVirt's accounts.
func (p plane) knows(t *testing.T, namespace string) {
	t.Helper()
	for of, want := range map[string]int{
		"mutatingwebhookconfiguration/kiln-mutating":      3,
		"validatingwebhookconfiguration/kiln-validating":  5,
		"configmap/kiln-revision-writers -n=kiln-system":  2,
		"deployments/kiln-controller -n=kiln-system":      0,
		"validatingadmissionpolicy/kiln-revision-writers": 0,
	} {
		output := p.must(t, append([]string{"get", "-o", "json"}, strings.Fields(of)...)...)
		var object map[string]any
		if err := json.Unmarshal([]byte(output), &object); err != nil {
			t.Fatal(err)
		}
		delete(object["metadata"].(map[string]any), "managedFields")
		delete(object["metadata"].(map[string]any), "annotations")
		raw, err := json.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		text := string(raw)
		if got := strings.Count(text, "serviceaccount:"+namespace+":kubevirt-"); got < want {
			t.Errorf("%s names accounts of namespace '%s' %d times, want %d", of, namespace, got, want)
		}
		if strings.HasPrefix(of, "deployments") && !(strings.Contains(text, `"value":"`+namespace+`"`) && strings.Contains(text, `"value":"kubevirt"`)) {
			t.Errorf("the controller knows no namespace '%s', or does not leave VMIs to KubeVirt: %s", namespace, text)
		}
	}
}

// refusedProfile reports whether a GuestProfile is refused because no webhook answers. Beside KubeVirt VMs are admitted then.
func (p plane) refusedProfile() bool {
	const profile = `{"apiVersion": "kilnvm.io/v1alpha1", "kind": "GuestProfile", "metadata": {"name": "probe"}, "spec": {}}`
	out, err := p.run(profile, p.Kubectl(), "create", "-n", "default", "--dry-run=server", "-f", "-")
	return err != nil && strings.Contains(out, "failed calling webhook")
}

// freed: VMs are written as before, and nothing of Kiln's judges them, or waits.
func (p plane) freed(t *testing.T, way string) {
	t.Helper()
	p.must(t, "get", "vm", "before")
	p.create(t, "after", "--dry-run=server")
	p.must(t, "label", "vm", "before", "edited=yes", "--overwrite")
	kinds := "validatingadmissionpolicies,validatingadmissionpolicybindings,mutatingwebhookconfigurations,validatingwebhookconfigurations"
	// kiln-parameters stays until everything is removed for good: kubernetes#130887.
	for left := range strings.Lines(p.must(t, "get", kinds, "-o", "name")) {
		if !strings.Contains(left, "/kiln-parameters") {
			t.Errorf("%s leaves %s", way, left)
		}
	}
	if left := p.must(t, "get", "clusterroles,clusterrolebindings", "-o", "name"); strings.Contains(left, "kiln") {
		t.Errorf("%s leaves rights of Kiln's:\n%s", way, left)
	}
	own := "deployments,services,pdb,secrets,roles,rolebindings,serviceaccounts"
	if left := p.must(t, "get", own, "-n", "kiln-system", "-o", "name"); strings.Contains(strings.ReplaceAll(left, "kiln-system", ""), "kiln") {
		t.Errorf("%s leaves in Kiln's namespace:\n%s", way, left)
	}
	if finalizers := p.must(t, "get", "vm", "before", "-o", "jsonpath={.metadata.finalizers}"); finalizers != "" {
		t.Errorf("%s leaves finalizers %s", way, finalizers)
	}
}
