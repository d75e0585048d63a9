package install

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/internal/clusterconfig"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
)

// workloads are the objects with pods, by their component.
var workloads = map[string]string{
	"webhook": "Deployment kiln-system/kiln-webhook", "controller": "Deployment kiln-system/kiln-controller",
	"apiserver": "Deployment kiln-system/kiln-apiserver", "devices": "DaemonSet kiln-devices/kiln-devices",
}

// TestFurtherPartsOfPods: each component has the annotations, labels, arguments and variables that its values name, and no other component has them. The
// selectors, which an API server lets nobody change, stay as they were in the first chart.
func TestFurtherPartsOfPods(t *testing.T) {
	plain := rendered(t, "apiserver.enabled=true")
	for component, id := range workloads {
		name := component + "."
		objects := rendered(t, "apiserver.enabled=true,"+name+"podAnnotations.example\\.org/a=one,"+name+"podLabels.team=infra,"+
			name+"extraArgs[0]=--one=1,"+name+"extraArgs[1]=--two,"+name+"extraEnv[0].name=HTTPS_PROXY,"+name+"extraEnv[0].value=http://proxy,"+
			name+"extraEnv[1].name=NODE,"+name+"extraEnv[1].valueFrom.fieldRef.fieldPath=spec.nodeName")
		want := deepCopy(plain[id])
		template := inside(want, "spec", "template")
		inside(template, "metadata")["annotations"] = map[string]any{"example.org/a": "one"}
		inside(template, "metadata", "labels")["team"] = "infra"
		container := inside(template, "spec")["containers"].([]any)[0].(map[string]any)
		container["args"] = append(container["args"].([]any), "--one=1", "--two")
		container["env"] = append(container["env"].([]any), map[string]any{"name": "HTTPS_PROXY", "value": "http://proxy"},
			map[string]any{"name": "NODE", "valueFrom": map[string]any{"fieldRef": map[string]any{"fieldPath": "spec.nodeName"}}})
		for other := range plain {
			expected := plain[other]
			if other == id {
				expected = want
			}
			if diff := cmp.Diff(expected, objects[other]); diff != "" {
				t.Errorf("%s: %s: -want +helm\n%s", component, other, diff)
			}
		}
		_, short, _ := strings.Cut(id, "/")
		if got := inside(want, "spec", "selector", "matchLabels"); !cmp.Equal(got, map[string]any{"app.kubernetes.io/name": short}) {
			t.Errorf("%s selects its pods by %v: a Deployment of the former chart cannot be upgraded to it", id, got)
		}
	}
}

// TestEmulation: where the configuration of the chart has guests run without KVM, 'launcher cpu' reports the CPUs of such guests from each node, as by the
// patch of docs/how-to/devices.md.
func TestEmulation(t *testing.T) {
	const id = "DaemonSet kiln-devices/kiln-devices-cpu"
	guide, err := os.ReadFile("../../docs/how-to/devices.md")
	if err != nil {
		t.Fatal(err)
	}
	_, patch, _ := strings.Cut(string(guide), "patches:\n- target: {kind: DaemonSet, name: kiln-devices-cpu}\n")
	patch, _, _ = strings.Cut(patch, "```")
	want := kustomized(t, "resources: [%[1]s/overlays/rotation]\npatches:\n- target: {kind: DaemonSet, name: kiln-devices-cpu}\n"+patch)[id]
	got := rendered(t, "configuration.developerConfiguration.useEmulation=true")[id]
	if diff := cmp.Diff(want, got); diff != "" || strings.Contains(fmt.Sprint(got), "kvm") {
		t.Errorf("-want +helm\n%s\n%v", diff, got)
	}
}

// TestCommonLabels: all objects and all pods have them, a label of the pods wins, and no selector asks for them.
func TestCommonLabels(t *testing.T) {
	for _, further := range allObjects {
		plain := rendered(t, further)
		objects := rendered(t, further+",commonLabels.app\\.kubernetes\\.io/part-of=vms,commonLabels.team=infra,webhook.podLabels.team=web")
		compareLabels(t, plain, objects)
	}
}

// allObjects are values by which the chart has each object that it can have.
var allObjects = []string{
	"apiserver.enabled=true,metrics.enabled=true,configuration.cpuModel=host-model,networkPolicy.enabled=true,networkPolicy.apiServerCIDRs={203.0.113.0/24}",
	"apiserver.enabled=true,certificates.source=cert-manager,failurePolicy=Ignore",
	"kubevirt.beside=true,kubevirt.pinHardware=true", "kubevirt.beside=true,kubevirt.pinHardware=true,kubevirt.hook=Plugin",
}

// compareLabels compares objects with plain ones and their common labels.
func compareLabels(t *testing.T, plain, objects map[string]any) {
	t.Helper()
	for id := range plain {
		want := deepCopy(plain[id])
		metadata := inside(want, "metadata")
		if metadata["labels"] == nil {
			metadata["labels"] = map[string]any{}
		}
		all := []map[string]any{inside(metadata, "labels")}
		if _, is, _ := unstructured.NestedMap(want, "spec", "template", "metadata", "labels"); is {
			all = append(all, inside(want, "spec", "template", "metadata", "labels"))
		}
		for i, labels := range all {
			labels["team"], labels["app.kubernetes.io/part-of"] = "infra", "vms"
			if i == 1 && id == workloads["webhook"] {
				labels["team"] = "web"
			}
		}
		if diff := cmp.Diff(want, objects[id]); diff != "" {
			t.Errorf("%s: -want +helm\n%s", id, diff)
		}
	}
}

// TestLabelsOfOthers: a label that the chart's objects and pods have cannot be set by values, nor one that Kubernetes or Helm sets.
func TestLabelsOfOthers(t *testing.T) {
	keys := map[string]bool{"app.kubernetes.io/managed-by": true, "pod-template-hash": true, "controller-revision-hash": true, "kubevirt.io": true}
	for _, further := range allObjects {
		for _, object := range rendered(t, further) {
			for _, path := range [][]string{{"metadata", "labels"}, {"spec", "template", "metadata", "labels"}} {
				labels, _, _ := unstructured.NestedMap(object.(map[string]any), path...)
				for key := range labels {
					keys[key] = true
				}
			}
		}
	}
	if len(keys) < 8 {
		t.Fatalf("only %v", keys)
	}
	for key := range keys {
		for _, value := range []string{"commonLabels", "webhook.podLabels", "devices.podLabels"} {
			out, err := template("--set", value+"."+strings.ReplaceAll(key, ".", `\.`)+"=x").CombinedOutput()
			if want := fmt.Sprintf("%s: label '%s' belongs to", value, key); err == nil || !strings.Contains(string(out), want) {
				t.Errorf("%s, %s: %v, want '%s':\n%s", value, key, err, want, out[:min(len(out), 400)])
			}
		}
	}
}

// TestVariablesOfTheChart: an API server refuses a container with two variables of a name.
func TestVariablesOfTheChart(t *testing.T) {
	objects := rendered(t, "apiserver.enabled=true")
	for component, id := range workloads {
		container := inside(objects[id], "spec", "template", "spec")["containers"].([]any)[0].(map[string]any)
		for _, variable := range container["env"].([]any) {
			name := variable.(map[string]any)["name"]
			out, err := template("--set", fmt.Sprintf("apiserver.enabled=true,%s.extraEnv[0].name=%s", component, name)).CombinedOutput()
			if want := fmt.Sprintf("%s.extraEnv: the chart sets variable '%s' itself", component, name); err == nil || !strings.Contains(string(out), want) {
				t.Errorf("%v, want '%s':\n%s", err, want, out[:min(len(out), 400)])
			}
		}
	}
}

// TestConfiguration: webhook, controller and API server read the value as Kiln reads a file, and roll when it changes.
func TestConfiguration(t *testing.T) {
	file := filepath.Join(t.TempDir(), "values.yaml")
	const values = `
apiserver: {enabled: true}
configuration:
  developerConfiguration: {useEmulation: true, cpuAllocationRatio: 4}
  vmStateStorageClass: fast
  liveUpdateConfiguration: {maxCpuSockets: 2000000}
  architectureConfiguration: {amd64: {machineType: pc-q35-9.2}}
  permittedHostDevices: {pciHostDevices: [{pciVendorSelector: "10DE:1EB8", resourceName: nvidia.com/TU104}]}
`
	if err := os.WriteFile(file, []byte(values), 0o600); err != nil {
		t.Fatal(err)
	}
	objects := rendered(t, "", "--values", file)
	text, _ := inside(objects["ConfigMap kiln-system/kiln-configuration"], "data")["configuration.json"].(string)
	cluster, warnings, err := clusterconfig.Parse([]byte(text))
	if err != nil || len(warnings) > 0 {
		t.Fatalf("%v %q:\n%s", err, warnings, text)
	}
	seen := fmt.Sprintf("%+v", cluster)
	for _, word := range []string{"fast", "pc-q35-9.2", "nvidia.com/TU104", "2000000"} {
		if !strings.Contains(seen+text, word) {
			t.Errorf("the configuration has no %s: %s", word, seen)
		}
	}
	changed := rendered(t, "configuration.cpuModel=Nehalem", "--values", file)
	for component, id := range workloads {
		pod := inside(objects[id], "spec", "template")
		reads := strings.Contains(fmt.Sprint(pod), "--config=/etc/kiln/configuration/configuration.json") &&
			strings.Contains(fmt.Sprint(pod), "mountPath:/etc/kiln/configuration ") && strings.Contains(fmt.Sprint(pod), "configMap:map[name:kiln-configuration]")
		if rolls := !cmp.Equal(objects[id], changed[id]); reads != (component != "devices") || rolls != reads {
			t.Errorf("%s: reads the configuration: %t, rolls when it changes: %t", id, reads, rolls)
		}
	}
	unsigned := rendered(t, "certificates.source=cert-manager", "--values", file)
	if !strings.Contains(fmt.Sprint(unsigned[workloads["controller"]]), "kiln-configuration") {
		t.Error("a controller that signs no certificates does not mount the configuration")
	}
	for id, object := range rendered(t, "apiserver.enabled=true") {
		if !strings.HasPrefix(id, "CustomResourceDefinition ") && strings.Contains(fmt.Sprint(object), "kiln-configuration ") {
			t.Errorf("%s has a configuration without the value", id)
		}
	}
}

// TestNameOverride: what selects pods selects the same pods under another name, and all that certificates, rights and policies name keeps its name.
func TestNameOverride(t *testing.T) {
	const values = "apiserver.enabled=true,metrics.enabled=true,networkPolicy.enabled=true,networkPolicy.apiServerCIDRs={203.0.113.0/24}"
	plain, other := rendered(t, values), rendered(t, values+",nameOverride=vms")
	renamed := map[string]any{}
	for id, object := range other {
		for _, component := range slices.Collect(maps.Keys(workloads)) {
			for _, kind := range []string{"Deployment kiln-system/", "DaemonSet kiln-devices/", "PodDisruptionBudget kiln-system/"} {
				if id == kind+"vms-"+component {
					id = kind + "kiln-" + component
				}
			}
		}
		renamed[id] = object
	}
	if diff := cmp.Diff(slices.Sorted(maps.Keys(plain)), slices.Sorted(maps.Keys(renamed))); diff != "" {
		t.Errorf("-kiln +vms\n%s", diff)
	}
	selects := 0
	for id, object := range renamed {
		for _, path := range [][]string{
			{"spec", "selector", "matchLabels"}, {"spec", "podSelector", "matchLabels"}, {"spec", "selector"},
		} {
			selector, is, err := unstructured.NestedStringMap(object.(map[string]any), path...)
			if !is || err != nil || len(selector) == 0 {
				continue
			}
			was, _, _ := unstructured.NestedStringMap(plain[id].(map[string]any), path...)
			selects++
			if now, before := selected(renamed, selector), selected(plain, was); len(before) == 0 || !cmp.Equal(before, now) {
				t.Errorf("%s selects %v by %v, want %v", id, now, selector, before)
			}
		}
	}
	if selects < 15 {
		t.Errorf("only %d selectors", selects)
	}
}

// selected lists the objects whose pods, or which themselves (Services of a ServiceMonitor), have labels.
func selected(objects map[string]any, selector map[string]string) (found []string) {
	for id, object := range objects {
		of, is, _ := unstructured.NestedStringMap(object.(map[string]any), "spec", "template", "metadata", "labels")
		if !is {
			of, _, _ = unstructured.NestedStringMap(object.(map[string]any), "metadata", "labels")
		}
		if labels.SelectorFromSet(selector).Matches(labels.Set(of)) {
			found = append(found, strings.ReplaceAll(id, "vms-", "kiln-"))
		}
	}
	slices.Sort(found)
	return found
}

// TestSpreadAndDisruption: constraints get the selector of their Deployment unless they have one, and a budget can be another one or none.
func TestSpreadAndDisruption(t *testing.T) {
	for _, component := range []string{"webhook", "controller", "apiserver"} {
		name := component + ".topologySpreadConstraints"
		objects := rendered(t, "apiserver.enabled=true,"+name+"[0].maxSkew=2,"+name+"[0].topologyKey=zone,"+name+"[0].whenUnsatisfiable=DoNotSchedule,"+
			name+"[1].maxSkew=1,"+name+"[1].topologyKey=rack,"+name+"[1].whenUnsatisfiable=ScheduleAnyway,"+name+"[1].labelSelector.matchLabels.a=b,"+
			component+".podDisruptionBudget.maxUnavailable=50%")
		got := inside(objects[workloads[component]], "spec", "template", "spec")["topologySpreadConstraints"]
		want := []any{
			map[string]any{"maxSkew": 2.0, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
				"labelSelector": map[string]any{"matchLabels": map[string]any{"app.kubernetes.io/name": "kiln-" + component}}},
			map[string]any{"maxSkew": 1.0, "topologyKey": "rack", "whenUnsatisfiable": "ScheduleAnyway",
				"labelSelector": map[string]any{"matchLabels": map[string]any{"a": "b"}}},
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: -want +helm\n%s", component, diff)
		}
		budget := "PodDisruptionBudget kiln-system/kiln-" + component
		if got := inside(objects[budget], "spec")["maxUnavailable"]; got != "50%" {
			t.Errorf("%s: maxUnavailable is %v", budget, got)
		}
		objects = rendered(t, "apiserver.enabled=true,"+component+".podDisruptionBudget.enabled=false,"+name+"=null")
		if objects[budget] != nil {
			t.Errorf("%s is there", budget)
		}
		if got := inside(objects[workloads[component]], "spec", "template", "spec")["topologySpreadConstraints"]; fmt.Sprint(got) != "[]" {
			t.Errorf("%s: constraints are %v", component, got)
		}
	}
}

// TestRegistryAndSecretsOfAll: both images are of one registry, and the pods of both namespaces have the Secrets besides their own. A parent chart has other
// values in 'global'. If this chart is installed without a parent, an unknown value is a typing error.
func TestRegistryAndSecretsOfAll(t *testing.T) {
	objects := rendered(t, "apiserver.enabled=true,image.tag=v1,launcher.image.tag=v2,global.imageRegistry=registry.example.org/mirror,"+
		"global.imagePullSecrets[0].name=all,image.pullSecrets[0].name=all,image.pullSecrets[1].name=own,devices.pullSecrets[0].name=nodes")
	for component, id := range workloads {
		pod := inside(objects[id], "spec", "template", "spec")
		image, secrets := "registry.example.org/mirror/kiln:v1", "[map[name:all] map[name:own]]"
		if component == "devices" {
			image, secrets = "registry.example.org/mirror/kiln-launcher:v2", "[map[name:all] map[name:nodes]]"
		}
		if got := pod["containers"].([]any)[0].(map[string]any)["image"]; got != image {
			t.Errorf("%s: image %v, want %s", id, got, image)
		}
		if got := fmt.Sprint(pod["imagePullSecrets"]); got != secrets {
			t.Errorf("%s: secrets %s, want %s", id, got, secrets)
		}
	}
	if text := fmt.Sprint(objects[workloads["controller"]]); !strings.Contains(text, "name:LAUNCHER_IMAGE value:registry.example.org/mirror/kiln-launcher:v2") {
		t.Errorf("the pods of guests have another image: %s", text)
	}
	parent := filepath.Join(t.TempDir(), "parent")
	if err := os.CopyFS(filepath.Join(parent, "charts", "kiln"), os.DirFS(chart)); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(parent, "Chart.yaml"), []byte("{apiVersion: v2, name: parent, version: 0.1.0}"), 0o600); err != nil {
		t.Fatal(err)
	}
	command := template("--set", "kiln.image.repository=kiln,global.imageRegistry=registry.example.org,global.theme=dark")
	command.Args[3] = parent
	if out, err := command.CombinedOutput(); err != nil || !strings.Contains(string(out), "image: \"registry.example.org/kiln:latest\"") {
		t.Errorf("as a part of another chart: %v\n%.600s", err, out)
	}
}

// inside returns the map at a path of an object, which must be there.
func inside(object any, path ...string) map[string]any {
	here, _ := object.(map[string]any)
	for _, step := range path {
		here, _ = here[step].(map[string]any)
	}
	if here == nil {
		panic(fmt.Sprintf("there is no %s", strings.Join(path, ".")))
	}
	return here
}

// deepCopy copies an object.
func deepCopy(object any) map[string]any {
	return (&unstructured.Unstructured{Object: object.(map[string]any)}).DeepCopy().Object
}
