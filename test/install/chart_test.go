// Package install installs Kiln as its users do, with kubectl and with Helm, and removes it again.
package install

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

const chart = "../../manifests/chart/kiln"

// helm is the built command.
var helm string

func TestMain(m *testing.M) {
	// go keeps the built command in its cache, and names its file.
	out, err := exec.Command("go", "-C", "../helm", "tool", "-n", "helm").Output()
	if err != nil {
		fmt.Fprintln(os.Stderr, "building helm:", err)
		os.Exit(1)
	}
	helm = strings.TrimSpace(string(out))
	os.Exit(m.Run())
}

// TestChartIsTheManifests: Helm makes with certain values what kustomize makes of the overlay or component that they stand for.
func TestChartIsTheManifests(t *testing.T) {
	const rotation = "resources: [%[1]s/overlays/rotation]\n"
	for _, c := range []struct{ why, values, kustomization string }{
		{"no values are the built-in rotation", "", rotation},
		{"cert-manager", "certificates.source=cert-manager", "resources: [%[1]s/overlays/cert-manager]\n"},
		{"VMs are admitted while no webhook answers", "failurePolicy=Ignore", "resources: [%[1]s/overlays/fail-open]\n"},
		{"the Prometheus Operator", "metrics.monitors=true", rotation + "components: [%[1]s/prometheus]\n"},
		{
			"no metrics", "metrics.enabled=false,metrics.monitors=true", rotation + "patches:\n- target: {name: kiln-metrics.*|kiln-.*-metrics}\n  patch: |\n" +
				"    $patch: delete\n    kind: Any\n    metadata: {name: any}\n" +
				"- target: {kind: Deployment, name: kiln-webhook}\n  patch: |\n" +
				"    - {op: remove, path: /spec/template/spec/containers/0/ports/2}\n" +
				"    - {op: remove, path: /spec/template/spec/containers/0/args/6}\n    - {op: remove, path: /spec/template/spec/containers/0/args/6}\n" +
				"- target: {kind: Deployment, name: kiln-controller}\n  patch: |\n" +
				"    - {op: remove, path: /spec/template/spec/containers/0/ports/1}\n" +
				"    - {op: remove, path: /spec/template/spec/containers/0/args/9}\n    - {op: remove, path: /spec/template/spec/containers/0/args/9}\n",
		},
		{"client certificates", "clientCertificates.configMap=kiln-client-ca", rotation + "components: [%[1]s/client-certificates]\n"},
		{
			"a network policy", "networkPolicy.enabled=true,networkPolicy.apiServerCIDRs={203.0.113.0/24},networkPolicy.metricsNamespace=watching",
			rotation + "configMapGenerator: [{name: kiln-network, literals: [api-server=203.0.113.0/24, metrics=watching]}]\n" +
				"components: [%[1]s/network-policy]\n",
		},
		{
			"other namespaces", "namespace=vms,launchers.namespace=machines,kubevirt.namespace=virt",
			rotation + "configMapGenerator: [{name: kiln-namespaces, literals: [system=vms, launchers=machines, kubevirt=virt]}]\n" +
				"components: [%[1]s/namespace]\n",
		},
		{
			"another image", "image.repository=registry.example.org/kiln,image.tag=v1",
			rotation + "images: [{name: kiln, newName: registry.example.org/kiln, newTag: v1}, {name: kiln-launcher, newName: registry.example.org/kiln-launcher}]\n" +
				"patches:\n- target: {kind: Deployment, name: kiln-controller}\n  patch: |\n" +
				"    - {op: replace, path: /spec/template/spec/containers/0/env/3/value, value: registry.example.org/kiln-launcher}\n",
		},
		{
			"guests on bare machines", "runtime=node", rotation + "components: [%[1]s/runtime-node]\n",
		},
		{
			"the pods of guests", "launcher.image.repository=registry.example.org/launcher,launcher.image.tag=v1,launcher.network=slirp," +
				"launcher.taps=true,launcher.lockedMemory=true," +
				"launcher.image.pullSecrets[0].name=one,launcher.image.pullSecrets[1].name=two",
			rotation + "images: [{name: kiln-launcher, newName: registry.example.org/launcher, newTag: v1}]\n" +
				"patches:\n- target: {kind: Deployment, name: kiln-controller}\n  patch: |\n" +
				"    - {op: add, path: /spec/template/spec/containers/0/args/-, value: '--launcher-pull-secrets=one,two'}\n" +
				"    - {op: replace, path: /spec/template/spec/containers/0/env/3/value, value: registry.example.org/launcher:v1}\n" +
				"    - {op: replace, path: /spec/template/spec/containers/0/env/4/value, value: slirp}\n" +
				"    - {op: replace, path: /spec/template/spec/containers/0/env/5/value, value: 'true'}\n" +
				"    - {op: replace, path: /spec/template/spec/containers/0/env/6/value, value: 'true'}\n",
		},
		{
			"what a Deployment of the webhook may have besides",
			"image.pullPolicy=IfNotPresent,webhook.replicas=3,webhook.nodeSelector.a=b,webhook.tolerations[0].key=x,priorityClassName=high,logLevel=debug",
			rotation + "patches:\n- target: {kind: Deployment, name: kiln-webhook}\n  patch: |\n" +
				"    - {op: add, path: /spec/template/spec/containers/0/args/-, value: --log-level=debug}\n" +
				"    - {op: add, path: /spec/template/spec/containers/0/imagePullPolicy, value: IfNotPresent}\n" +
				"    - {op: replace, path: /spec/replicas, value: 3}\n" +
				"    - {op: replace, path: /spec/template/spec/priorityClassName, value: high}\n" +
				"    - {op: add, path: /spec/template/spec/nodeSelector, value: {a: b}}\n" +
				"    - {op: add, path: /spec/template/spec/tolerations, value: [{key: x}]}\n" +
				"- target: {kind: Deployment, name: kiln-controller}\n  patch: |\n" +
				"    - {op: add, path: /spec/template/spec/containers/0/args/-, value: --log-level=debug}\n" +
				"    - {op: add, path: /spec/template/spec/containers/0/imagePullPolicy, value: IfNotPresent}\n" +
				"    - {op: replace, path: /spec/template/spec/priorityClassName, value: high}\n" +
				"- target: {kind: DaemonSet, name: kiln-devices.*}\n  patch: |\n" +
				"    - {op: add, path: /spec/template/spec/containers/0/args/-, value: --log-level=debug}\n" +
				"    - {op: add, path: /spec/template/spec/containers/0/imagePullPolicy, value: IfNotPresent}\n",
		},
		{"beside KubeVirt", "kubevirt.beside=true", "resources: [%[1]s/overlays/beside-kubevirt]\n"},
		{
			"the hardware of KubeVirt's guests",
			"kubevirt.beside=true,kubevirt.pinHardware=true,launcher.image.repository=registry.example.org/launcher,launcher.image.tag=v1",
			"resources: [%[1]s/overlays/beside-kubevirt]\npatches:\n- target: {kind: Deployment, name: kiln-controller}\n  patch: |\n" +
				"    - {op: replace, path: /spec/template/spec/containers/0/env/3/value, value: registry.example.org/launcher:v1}\n" +
				"- target: {kind: Deployment, name: kiln-webhook}\n  patch: |\n" +
				"    - {op: replace, path: /spec/template/spec/containers/0/env/2/value, value: registry.example.org/launcher:v1}\n",
		},
		{
			"the hardware of KubeVirt's guests, by a plugin",
			"kubevirt.beside=true,kubevirt.pinHardware=true,kubevirt.hook=Plugin,launcher.image.tag=v1,certificates.source=cert-manager," +
				"failurePolicy=Ignore,namespace=vms,launchers.namespace=machines,kubevirt.namespace=virt",
			"resources: [%[1]s/overlays/cert-manager]\n" +
				"configMapGenerator: [{name: kiln-namespaces, literals: [system=vms, launchers=machines, kubevirt=virt]}]\n" +
				"components: [%[1]s/webhook/fail-open, %[1]s/beside-kubevirt, %[1]s/beside-kubevirt/plugin, %[1]s/namespace]\n" +
				"patches:\n- target: {kind: Deployment, name: kiln-controller}\n  patch: |\n" +
				"    - {op: replace, path: /spec/template/spec/containers/0/env/3/value, value: kiln-launcher:v1}\n" +
				"- target: {kind: Deployment, name: kiln-webhook}\n  patch: |\n" +
				"    - {op: replace, path: /spec/template/spec/containers/0/env/2/value, value: kiln-launcher:v1}\n",
		},
		{
			"beside KubeVirt, with all that changes it",
			"kubevirt.beside=true,certificates.source=cert-manager,failurePolicy=Ignore,namespace=vms,launchers.namespace=machines,kubevirt.namespace=virt",
			"resources: [%[1]s/overlays/cert-manager]\n" +
				"configMapGenerator: [{name: kiln-namespaces, literals: [system=vms, launchers=machines, kubevirt=virt]}]\n" +
				"components: [%[1]s/webhook/fail-open, %[1]s/beside-kubevirt, %[1]s/namespace]\n",
		},
		{
			"beside KubeVirt, without refusals", "kubevirt.beside=true,admission.enforcement=Warn",
			"resources: [%[1]s/overlays/beside-kubevirt]\ncomponents: [%[1]s/beside-kubevirt/warn]\n",
		},
		{
			"beside KubeVirt, in namespaces that opt in", "kubevirt.beside=true,admission.namespaces=OptIn",
			"resources: [%[1]s/overlays/beside-kubevirt]\ncomponents: [%[1]s/beside-kubevirt/opt-in]\n",
		},
		{
			"beside KubeVirt, in namespaces that opt in, while no webhook answers", "kubevirt.beside=true,admission.namespaces=OptIn,failurePolicy=Ignore",
			"resources: [%[1]s/overlays/fail-open]\ncomponents: [%[1]s/beside-kubevirt, %[1]s/beside-kubevirt/opt-in]\n",
		},
		{
			"beside KubeVirt, without refusals, while no webhook answers", "kubevirt.beside=true,admission.enforcement=Warn,failurePolicy=Ignore",
			"resources: [%[1]s/overlays/fail-open]\ncomponents: [%[1]s/beside-kubevirt, %[1]s/beside-kubevirt/warn]\n",
		},
		{
			"beside KubeVirt, without refusals, in namespaces that opt in, by a plugin",
			"kubevirt.beside=true,kubevirt.pinHardware=true,kubevirt.hook=Plugin,launcher.image.tag=v1,certificates.source=cert-manager," +
				"failurePolicy=Ignore,namespace=vms,launchers.namespace=machines,kubevirt.namespace=virt,admission.enforcement=Warn,admission.namespaces=OptIn",
			"resources: [%[1]s/overlays/cert-manager]\n" +
				"configMapGenerator: [{name: kiln-namespaces, literals: [system=vms, launchers=machines, kubevirt=virt]}]\n" +
				"components: [%[1]s/webhook/fail-open, %[1]s/beside-kubevirt, %[1]s/beside-kubevirt/plugin, %[1]s/beside-kubevirt/opt-in, " +
				"%[1]s/beside-kubevirt/warn, %[1]s/namespace]\n" +
				"patches:\n- target: {kind: Deployment, name: kiln-controller}\n  patch: |\n" +
				"    - {op: replace, path: /spec/template/spec/containers/0/env/3/value, value: kiln-launcher:v1}\n" +
				"- target: {kind: Deployment, name: kiln-webhook}\n  patch: |\n" +
				"    - {op: replace, path: /spec/template/spec/containers/0/env/2/value, value: kiln-launcher:v1}\n",
		},
		{"the API server of subresources", "apiserver.enabled=true", "resources: [%[1]s/overlays/apiserver]\n"},
		{
			"the API server of subresources with cert-manager", "apiserver.enabled=true,certificates.source=cert-manager",
			"resources: [%[1]s/overlays/cert-manager]\ncomponents: [%[1]s/apiserver, %[1]s/apiserver/cert-manager]\n",
		},
		{
			"its metrics, in other namespaces", "apiserver.enabled=true,metrics.monitors=true,namespace=vms,launchers.namespace=machines,kubevirt.namespace=virt",
			"resources: [%[1]s/overlays/apiserver]\nconfigMapGenerator: [{name: kiln-namespaces, literals: [system=vms, launchers=machines, kubevirt=virt]}]\n" +
				"components: [%[1]s/prometheus, %[1]s/namespace]\n",
		},
		{
			"its network policy",
			"apiserver.enabled=true,networkPolicy.enabled=true,networkPolicy.apiServerCIDRs={203.0.113.0/24},networkPolicy.metricsNamespace=watching",
			"resources: [%[1]s/overlays/apiserver]\n" +
				"configMapGenerator: [{name: kiln-network, literals: [api-server=203.0.113.0/24, metrics=watching]}]\n" +
				"components: [%[1]s/network-policy, %[1]s/apiserver/network-policy]\n",
		},
		{
			"what its Deployment may have besides",
			"apiserver.enabled=true,apiserver.replicas=5,apiserver.resources.limits.memory=1Gi,apiserver.nodeSelector.a=b,apiserver.tolerations[0].key=x," +
				"apiserver.affinity.nodeAffinity.c=d",
			"resources: [%[1]s/overlays/apiserver]\npatches:\n- target: {kind: Deployment, name: kiln-apiserver}\n  patch: |\n" +
				"    - {op: replace, path: /spec/replicas, value: 5}\n" +
				"    - {op: replace, path: /spec/template/spec/containers/0/resources/limits/memory, value: 1Gi}\n" +
				"    - {op: add, path: /spec/template/spec/nodeSelector, value: {a: b}}\n" +
				"    - {op: add, path: /spec/template/spec/tolerations, value: [{key: x}]}\n" +
				"    - {op: add, path: /spec/template/spec/affinity, value: {nodeAffinity: {c: d}}}\n",
		},
		{"roles that are not aggregated", "apiserver.enabled=true,roleAggregationStrategy=Manual",
			"resources: [%[1]s/overlays/apiserver]\ncomponents: [%[1]s/manual-roles]\n"},
		{"no devices", "devices.enabled=false", rotation + "components: [%[1]s/without-devices]\n"},
		{
			"the devices of other nodes", "devices.kubeletRoot=/var/lib/k0s/kubelet,devices.containerd=/etc/k0s,devices.count=9,launcher.image.tag=v1," +
				"devices.nodeSelector.guests=yes,devices.tolerations[0].key=x,devices.pullSecrets[0].name=registry",
			rotation + "images: [{name: kiln-launcher, newTag: v1}]\npatches:\n- target: {kind: Deployment, name: kiln-controller}\n  patch: |\n" +
				"    - {op: replace, path: /spec/template/spec/containers/0/env/3/value, value: 'kiln-launcher:v1'}\n" +
				"- target: {kind: DaemonSet, name: kiln-devices}\n  patch: |\n" +
				"    - {op: add, path: /spec/template/spec/containers/0/args/-, value: --device-count=9}\n" +
				"    - {op: replace, path: /spec/template/spec/volumes/1/hostPath/path, value: /var/lib/k0s/kubelet/seccomp}\n" +
				"    - {op: replace, path: /spec/template/spec/volumes/4/hostPath/path, value: /etc/k0s}\n" +
				"- target: {kind: DaemonSet, name: kiln-devices.*}\n  patch: |\n" +
				"    - {op: add, path: /spec/template/spec/nodeSelector/guests, value: 'yes'}\n" +
				"    - {op: replace, path: /spec/template/spec/tolerations, value: [{key: x}]}\n" +
				"    - {op: add, path: /spec/template/spec/imagePullSecrets, value: [{name: registry}]}\n",
		},
	} {
		t.Run(c.why, func(t *testing.T) {
			got := rendered(t, c.values)
			want := kustomized(t, c.kustomization)
			if len(want) < 40 {
				t.Fatalf("only %d objects", len(want))
			}
			sortWebhooks(want)
			sortWebhooks(got)
			compare(t, want, got)
		})
	}
}

// sortWebhooks sorts the validating webhooks by name: a patch of kustomize moves the webhooks that it names to the front, and the API server calls all of them
// at once.
func sortWebhooks(objects map[string]any) {
	for id, object := range objects {
		if of, is := object.(map[string]any); is && strings.HasPrefix(id, "ValidatingWebhookConfiguration ") {
			if webhooks, has := of["webhooks"].([]any); has {
				slices.SortFunc(webhooks, func(a, b any) int {
					return strings.Compare(fmt.Sprint(a.(map[string]any)["name"]), fmt.Sprint(b.(map[string]any)["name"]))
				})
			}
		}
	}
}

// compare compares one object at a time: a difference would otherwise be shown among all definitions.
func compare(t *testing.T, want, got map[string]any) {
	t.Helper()
	for id := range want {
		if diff := cmp.Diff(want[id], got[id]); diff != "" {
			t.Errorf("%s: -kustomize +helm\n%s", id, diff)
		}
	}
	for id := range got {
		if want[id] == nil {
			t.Errorf("%s: only Helm makes it", id)
		}
	}
}

// TestNamespaceOfTheRelease: Helm has made it with --create-namespace, and the chart could not make it again.
func TestNamespaceOfTheRelease(t *testing.T) {
	want := kustomized(t, "resources: [%[1]s/overlays/rotation]\n")
	delete(want, "Namespace /kiln-system")
	compare(t, want, rendered(t, "", "--namespace", "kiln-system"))
	if _, found := rendered(t, "", "--namespace", "vms")["Service vms/kiln-webhook"]; !found {
		t.Error("a release in namespace 'vms' has no webhook there")
	}
}

// TestOwnCertificate: a Secret of the user's, with the CA that signed it.
func TestOwnCertificate(t *testing.T) {
	ca := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(ca, []byte("the authority"), 0o600); err != nil {
		t.Fatal(err)
	}
	objects := rendered(t, "certificates.source=secret,certificates.secretName=mine", "--set-file", "certificates.caBundle="+ca)
	text := fmt.Sprint(objects["Deployment kiln-system/kiln-webhook"])
	if !strings.Contains(text, "secretName:mine") || strings.Contains(text, "kiln-webhook-tls") {
		t.Errorf("the webhook does not have the Secret: %s", text)
	}
	for _, kind := range []string{"Mutating", "Validating"} {
		configuration := objects[kind+"WebhookConfiguration /kiln-"+strings.ToLower(kind)].(map[string]any)
		for _, hook := range configuration["webhooks"].([]any) {
			if bundle := hook.(map[string]any)["clientConfig"].(map[string]any)["caBundle"]; bundle != "dGhlIGF1dGhvcml0eQ==" {
				t.Errorf("%s: a webhook has the CA '%v'", kind, bundle)
			}
		}
	}
	if _, found := objects["Secret kiln-system/kiln-webhook-tls"]; found {
		t.Error("the chart has a Secret for the rotation")
	}
}

// TestDefinitionsOfKubeVirt: where they remain, the chart does not change them.
func TestDefinitionsOfKubeVirt(t *testing.T) {
	all, own := rendered(t, ""), rendered(t, "kubevirt.definitions=false")
	if left := len(all) - len(own); left != 11 {
		t.Errorf("%d objects are left out, want the 11 definitions", left)
	}
}

// TestWrongValues: a misspelt value is an error that names it, and no default.
func TestWrongValues(t *testing.T) {
	for _, c := range []struct{ values, want string }{
		{"replica=3", "replica"},
		{"webhook.replica=3", "replica"},
		{"webhook.replicas=0", "replicas"},
		{"webhook.resources.limits.memory=null", "memory"},
		{"certificates.source=certmanager", "certificates"},
		{"certificates.source=secret,certificates.caBundle=x", "certificates.secretName"},
		{"certificates.source=secret,certificates.secretName=mine", "certificates.caBundle"},
		{
			"apiserver.enabled=true,certificates.source=secret,certificates.secretName=mine,certificates.caBundle=x,certificates.apiserver.caBundle=y",
			"certificates.apiserver.secretName",
		},
		{
			"apiserver.enabled=true,certificates.source=secret,certificates.secretName=mine,certificates.caBundle=x,certificates.apiserver.secretName=y",
			"certificates.apiserver.caBundle",
		},
		{"apiserver.enabled=yes", "enabled"},
		{"apiserver.enabled=true,kubevirt.beside=true", "kubevirt.beside"},
		{"kubevirt.pinHardware=true", "kubevirt.pinHardware"},
		{"kubevirt.pinHardware=true,kubevirt.hook=Plugin", "kubevirt.pinHardware"},
		{"kubevirt.beside=true,kubevirt.hook=Plugin", "kubevirt.hook"},
		{"kubevirt.hook=plugin", "hook"},
		{"kubevirt.namespace=KubeVirt", "namespace"},
		{"apiserver.replicas=0", "replicas"},
		{"failurePolicy=fail", "failurePolicy"},
		{"admission.enforcement=warn,kubevirt.beside=true", "enforcement"},
		{"admission.namespaces=Opt-In,kubevirt.beside=true", "namespaces"},
		{"admission.enforcement=Warn", "admission: without KubeVirt"},
		{"admission.namespaces=OptIn", "admission: without KubeVirt"},
		{"admission=null", "admission is required"},
		{"collectAfter=soon", "collectAfter"},
		{"metrics.monitors=maybe", "monitors"},
		{"devices.kubeletRoot=kubelet", "kubeletRoot"},
		{"devices.count=0", "count"},
		{"networkPolicy.enabled=true", "apiServerCIDRs"},
		{"namespace=Kiln", "namespace"},
		{"namespace=kiln-launchers", "launchers.namespace"},
		{"image.repository=", "set image.repository=HOST/kiln,image.tag=TAG"},
		{"configuration=x", "configuration"},
		{"configuration=null", "configuration is required"}, // as with --reuse-values of a release of an earlier chart
		{"configuration.cpuModel=Nehalem,kubevirt.beside=true", "configuration: beside KubeVirt"},
		{"configurations.cpuModel=Nehalem", "configurations"},
		{"nameOverride=VMs", "nameOverride"},
		{"nameOverride=a-name-that-leaves-no-room-for-its-component", "nameOverride"},
		{"commonLabels.team=true", "commonLabels"},
		{"commonLabels.-team=a", "commonLabels"},
		{"global.imageRegisty=registry.example.org", "global.imageRegisty: there is no such value"},
		{"global.imageRegistry=registry.example.org/", "imageRegistry"},
		{"global.imagePullSecrets={registry}", "imagePullSecrets"},
		{"image.pullSecrets[0].nam=registry", "nam"},
		{"webhook.podAnnotations.a=1", "podAnnotations"},
		{"webhook.podAnnotation.a=b", "podAnnotation"},
		{"controller.podLabels.team=a/b", "podLabels"},
		{"apiserver.extraArgs={v=4}", "extraArgs"},
		{"devices.extraArg={--v=4}", "extraArg"},
		{"devices.extraEnv[0].value=x", "name"},
		{"webhook.extraEnv[0].name=A,webhook.extraEnv[0].valeu=x", "valeu"},
		{"webhook.topologySpreadConstraints[0].maxSkew=1", "topologyKey"},
		{"webhook.topologySpreadConstraints[0].maxSkw=1", "maxSkw"},
		{"webhook.podDisruptionBudget.maxUnavailable=half", "maxUnavailable"},
		{"webhook.podDisruptionBudget.minAvailable=1", "minAvailable"},
		{"devices.podDisruptionBudget.enabled=true", "podDisruptionBudget"},
	} {
		out, err := template("--set", c.values).CombinedOutput()
		if err == nil || !strings.Contains(string(out), c.want) {
			t.Errorf("%s: %v, want an error about '%s':\n%s", c.values, err, c.want, out[:min(len(out), 600)])
		}
	}
}

// TestOlderKubernetes: Helm refuses a cluster that docs/how-to/install.md excludes before it installs anything.
func TestOlderKubernetes(t *testing.T) {
	for version, works := range map[string]bool{"1.33.9": false, "1.34.0": true, "v1.34.1-gke.100": true, "1.36.3": true} {
		out, err := template("--kube-version", version).CombinedOutput()
		if (err == nil) != works || !works && !strings.Contains(string(out), "chart requires kubeVersion") {
			t.Errorf("%s: %v\n%.300s", version, err, out)
		}
	}
}

// TestMonitors: the chart installs without the Prometheus Operator, and has what it reads where it is.
func TestMonitors(t *testing.T) {
	const known = "--api-versions=monitoring.coreos.com/v1/ServiceMonitor"
	for _, c := range []struct {
		values, args string
		want         int
	}{
		{"", "", 0}, {"", known, 2}, {"metrics.monitors=true", "", 2}, {"metrics.monitors=false", known, 0}, {"metrics.enabled=false", known, 0},
	} {
		args, monitors := []string{}, 0
		if c.args != "" {
			args = append(args, c.args)
		}
		for id := range rendered(t, c.values, args...) {
			if strings.HasPrefix(id, "ServiceMonitor ") {
				monitors++
			}
		}
		if monitors != c.want {
			t.Errorf("'%s' with '%s' has %d monitors, want %d", c.values, c.args, monitors, c.want)
		}
	}
}

func TestLint(t *testing.T) {
	for _, values := range []string{"", "certificates.source=cert-manager", "metrics.monitors=true", "apiserver.enabled=true", "kubevirt.beside=true"} {
		if out, err := exec.Command(helm, "lint", "--strict", chart, "--set", "image.repository=kiln", "--set", values).CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", values, err, out)
		}
	}
}

// template renders the chart with an image, which has no default, and for the oldest Kubernetes that it takes: without a cluster Helm assumes an older one.
func template(args ...string) *exec.Cmd {
	return exec.Command(helm, append([]string{"template", "kiln", chart, "--kube-version", "1.34", "--set", "image.repository=kiln"}, args...)...)
}

// rendered are the objects that Helm makes with some values, as they reach an API server, by kind, namespace and name.
func rendered(t *testing.T, values string, args ...string) map[string]any {
	t.Helper()
	command := template(append([]string{"--set", values}, args...)...)
	var errors strings.Builder
	command.Stderr = &errors
	out, err := command.Output()
	if err != nil {
		t.Fatalf("helm template: %v\n%s", err, errors.String())
	}
	objects := map[string]any{}
	for document := range strings.SplitSeq(string(out), "\n---\n") {
		add(t, objects, document)
	}
	return objects
}

// kustomized are the objects of a kustomization, whose text has %[1]s for the path of the manifests.
func kustomized(t *testing.T, text string) map[string]any {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	manifests, err := filepath.Abs("../../manifests")
	if err != nil {
		t.Fatal(err)
	}
	if manifests, err = filepath.Rel(dir, manifests); err != nil { // kustomize takes no absolute path
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "kustomization.yaml"), fmt.Appendf(nil, text, manifests), 0o600); err != nil {
		t.Fatal(err)
	}
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), dir)
	if err != nil {
		t.Fatal(err)
	}
	objects := map[string]any{}
	for _, resource := range built.Resources() {
		document, err := resource.AsYAML()
		if err != nil {
			t.Fatal(err)
		}
		add(t, objects, string(document))
	}
	return objects
}

// add adds an object without what only Helm reads. An image without a tag counts as an image with the tag 'latest'.
func add(t *testing.T, objects map[string]any, document string) {
	t.Helper()
	var object map[string]any
	if err := yaml.UnmarshalStrict([]byte(strings.TrimPrefix(document, "---\n")), &object); err != nil {
		t.Fatalf("%v:\n%s", err, document)
	}
	if object == nil {
		return
	}
	metadata := object["metadata"].(map[string]any)
	labels, _ := metadata["labels"].(map[string]any)
	annotations, _ := metadata["annotations"].(map[string]any)
	if policy := annotations["helm.sh/resource-policy"]; policy != nil && (policy != "keep" || labels["kilnvm.io/uninstall"] != "keep") {
		t.Errorf("%s '%s' is kept by Helm and not by its label", object["kind"], metadata["name"])
	}
	if delete(annotations, "helm.sh/resource-policy"); len(annotations) == 0 {
		delete(metadata, "annotations")
	}
	if spec, _ := object["spec"].(map[string]any); object["kind"] == "Deployment" || object["kind"] == "DaemonSet" {
		container := spec["template"].(map[string]any)["spec"].(map[string]any)["containers"].([]any)[0].(map[string]any)
		container["image"] = strings.TrimSuffix(container["image"].(string), ":latest")
		for _, variable := range container["env"].([]any) {
			if variable := variable.(map[string]any); variable["name"] == "LAUNCHER_IMAGE" {
				variable["value"] = strings.TrimSuffix(variable["value"].(string), ":latest")
			}
		}
	}
	namespace, _ := metadata["namespace"].(string)
	id := fmt.Sprintf("%s %s/%s", object["kind"], namespace, metadata["name"])
	if objects[id] != nil {
		t.Errorf("%s is there twice", id)
	}
	objects[id] = object
}
