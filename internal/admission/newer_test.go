package admission

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/config"
	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// unknownField is a field that no version of KubeVirt has.
const unknownField = "fieldOfANewerAPI"

// openMaps are fields whose keys the user chooses: a field there would be a label, or a resource.
var openMaps = map[string]bool{
	"labels": true, "annotations": true, "nodeSelector": true, "matchLabels": true, "requests": true, "limits": true, "quantities": true,
}

// addNewer adds the field to each object below a value: an object, a list or a word. It returns the paths.
func addNewer(path string, value any) (added []string) {
	switch value := value.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(value)) {
			if !openMaps[key] {
				added = append(added, addNewer(path+"."+key, value[key])...)
			}
		}
		value[unknownField] = map[string]any{"deep": []any{map[string]any{"at": path}}}
		added = append(added, path)
	case []any:
		for i := range value {
			added = append(added, addNewer(fmt.Sprintf("%s[%d]", path, i), value[i])...)
		}
	}
	return added
}

// findNewer returns the paths at which the fields were added that a value still has.
func findNewer(value any) (found []string) {
	switch value := value.(type) {
	case map[string]any:
		for key, below := range value {
			if key != unknownField {
				found = append(found, findNewer(below)...)
				continue
			}
			deep, _ := below.(map[string]any)["deep"].([]any)
			if len(deep) == 1 {
				at, _ := deep[0].(map[string]any)["at"].(string)
				found = append(found, at)
			}
		}
	case []any:
		for _, element := range value {
			found = append(found, findNewer(element)...)
		}
	}
	return found
}

// lostFields are the paths of added that an object no longer has.
func lostFields(t *testing.T, added []string, object string) (lost []string) {
	t.Helper()
	var after any
	if err := json.Unmarshal([]byte(object), &after); err != nil {
		t.Fatal(err)
	}
	found := findNewer(after)
	for _, path := range added {
		if !slices.Contains(found, path) {
			lost = append(lost, path)
		}
	}
	return lost
}

// TestFieldsOfANewerAPI: each object of a guest has a field that this version does not know, at every depth. All of them are in the object that is stored: a
// VMI that becomes explicit, a VM that is pinned, and a VM that is expanded.
func TestFieldsOfANewerAPI(t *testing.T) {
	files, err := filepath.Glob("../../test/fields/guests/*.yaml")
	if err != nil || len(files) < 10 {
		t.Fatalf("%d guests: %v", len(files), err)
	}
	generous := func(policy v1.InstancetypeReferencePolicy) func() config.Cluster {
		return func() config.Cluster {
			cluster := installed()
			cluster.Policy, cluster.Limits.Gates, cluster.Limits.PersistentReservation = policy, config.AllGates(), true
			return cluster
		}
	}
	tried, changed := map[string]int{}, map[string]int{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		read := func() (vmi map[string]any) {
			if err := yaml.Unmarshal(text, &vmi); err != nil {
				t.Fatal(err)
			}
			return vmi
		}
		guest := read()
		metadata, _ := read()["metadata"].(map[string]any)
		vm := map[string]any{"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "metadata": map[string]any{"name": "web", "namespace": "team"},
			"spec": map[string]any{"runStrategy": "Always", "preference": map[string]any{"name": "fast"},
				"template": map[string]any{"metadata": map[string]any{"annotations": metadata["annotations"]}, "spec": read()["spec"]}}}
		for _, path := range []struct {
			name   string
			hook   string
			policy v1.InstancetypeReferencePolicy
			object map[string]any
		}{
			{"a VMI", MutateVMI, v1.Reference, guest}, {"a VM", MutateVM, v1.Reference, vm}, {"a VM that is expanded", MutateVM, v1.Expand, copied(t, vm)},
		} {
			c := newCluster(t, preferring)
			c.Reviewer.Configuration = generous(path.policy)
			added := addNewer("", path.object["spec"])
			if path.policy == v1.Expand { // an expanded VM names no preference
				added = slices.DeleteFunc(added, func(at string) bool { return at == ".preference" })
			}
			request := create(t, asText(t, path.object))
			response := ask(t, c.Hooks()[path.hook], request)
			if !response.Allowed { // a part of the guests needs more than this cluster has
				continue
			}
			tried[path.name] += len(added)
			if response.Patch != nil && request.Operation == admissionv1.Create {
				changed[path.name]++
			}
			if lost := lostFields(t, added, patched(t, request, response)); len(lost) > 0 {
				t.Errorf("%s of %s loses %d of %d fields, such as %s", path.name, filepath.Base(file), len(lost), len(added), lost[0])
			}
		}
	}
	t.Logf("fields that are kept: %v, objects that are patched: %v", tried, changed)
	for _, name := range []string{"a VMI", "a VM", "a VM that is expanded"} {
		if tried[name] < 400 || changed[name] < 10 {
			t.Errorf("%s: %d fields in %d patched objects: too few to tell anything", name, tried[name], changed[name])
		}
	}
}

// TestUpdatesKeepFieldsOfANewerAPI: an update of a stored VM keeps the fields of its spec and status, also in elements of a list of which another element is
// changed. No webhook changes an update of a status.
func TestUpdatesKeepFieldsOfANewerAPI(t *testing.T) {
	c := newCluster(t, catalog, preferring)
	const vm = `{apiVersion: kubevirt.io/v1, kind: VirtualMachine, metadata: {name: web, namespace: team, uid: u},
spec: {runStrategy: Always, instancetype: {name: small}, preference: {name: fast}, template: {metadata: {labels: {a: b}}, spec: {domain: {devices: {
disks: [{name: a, disk: {}}, {name: b, disk: {bus: sata}}]}}, volumes: [{name: a, emptyDisk: {capacity: 1Gi}}, {name: b, emptyDisk: {capacity: 1Gi}}]}}},
status: {printableStatus: Running, conditions: [{type: Ready, status: "True"}], stateChangeRequests: [{action: Stop}]}}`
	var object map[string]any
	if err := yaml.Unmarshal([]byte(vm), &object); err != nil {
		t.Fatal(err)
	}
	added := append(addNewer(".spec", object["spec"]), addNewer(".status", object["status"])...)
	request := create(t, asText(t, object))
	response := ask(t, c.Hooks()[MutateVM], request)
	stored := patched(t, request, response)
	if lost := lostFields(t, added, stored); len(lost) > 0 || response.Patch == nil {
		t.Fatalf("a VM that is created loses %q", lost)
	}
	patches := 0
	for what, change := range map[string]func(vm map[string]any){
		"a disk": func(vm map[string]any) {
			disks, _, _ := unstructured.NestedSlice(vm, "spec", "template", "spec", "domain", "devices", "disks")
			disks[1].(map[string]any)["bootOrder"] = int64(1)
			_ = unstructured.SetNestedSlice(vm, disks, "spec", "template", "spec", "domain", "devices", "disks")
		},
		"the request for new pins": func(vm map[string]any) {
			_ = unstructured.SetNestedField(vm, "", "metadata", "annotations", v1alpha1.AnnotationPins)
		},
		"the pins are gone": func(vm map[string]any) { unstructured.RemoveNestedField(vm, "metadata", "annotations") },
	} {
		var edited map[string]any
		if err := json.Unmarshal([]byte(stored), &edited); err != nil {
			t.Fatal(err)
		}
		change(edited)
		request := update(t, stored, asText(t, edited))
		response := ask(t, c.Hooks()[MutateVM], request)
		if !response.Allowed {
			t.Errorf("%s: refused: %+v", what, response.Result)
			continue
		}
		patches += len(response.Patch)
		if lost := lostFields(t, added, patched(t, request, response)); len(lost) > 0 {
			t.Errorf("%s: the update loses %q", what, lost)
		}
	}
	if patches == 0 {
		t.Error("no update was patched")
	}
}

// TestRevisionsKeepFieldsOfANewerAPI: the revisions of an instancetype and a preference, to which a VM is pinned, have every field of the objects.
func TestRevisionsKeepFieldsOfANewerAPI(t *testing.T) {
	var documents []string
	added := map[string][]string{}
	for _, document := range []string{catalog, preferring} {
		var object map[string]any
		if err := yaml.Unmarshal([]byte(document), &object); err != nil {
			t.Fatal(err)
		}
		kind, _ := object["kind"].(string)
		added[kind] = addNewer("", object["spec"])
		documents = append(documents, asText(t, object))
	}
	c := newCluster(t, documents...)
	const vm = `{apiVersion: kubevirt.io/v1, kind: VirtualMachine, metadata: {name: web, namespace: team}, spec: {runStrategy: Always,
instancetype: {name: small}, preference: {name: fast}, template: {spec: {domain: {devices: {}}}}}}`
	if response := ask(t, c.Hooks()[MutateVM], create(t, vm)); !response.Allowed {
		t.Fatalf("refused: %+v", response.Result)
	}
	for _, draft := range c.written {
		var content struct{ Kind string }
		if err := json.Unmarshal(draft.Data, &content); err != nil {
			t.Fatal(err)
		}
		paths, known := added[content.Kind]
		if !known {
			continue
		}
		delete(added, content.Kind)
		if lost := lostFields(t, paths, string(draft.Data)); len(lost) > 0 || len(paths) < 3 {
			t.Errorf("the revision of %s loses %q of %d fields", content.Kind, lost, len(paths))
		}
	}
	if len(added) > 0 {
		t.Errorf("no revisions of %v were written", slices.Collect(maps.Keys(added)))
	}
}

func asText(t *testing.T, object any) string {
	t.Helper()
	raw, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func copied(t *testing.T, object map[string]any) (other map[string]any) {
	t.Helper()
	if err := json.Unmarshal([]byte(asText(t, object)), &other); err != nil {
		t.Fatal(err)
	}
	return other
}
