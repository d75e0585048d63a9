package beside

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kilnvm/kiln/test/cluster"
	"github.com/kilnvm/kiln/test/samples"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	v1 "kubevirt.io/api/core/v1"
)

// unexplained are leaves of the spec in which KubeVirt's VMI and explain differ, by path: why they do, as docs/explanation/beside-kubevirt.md says, and whether
// only a VM that is not stored yet is explained so.
var unexplained = map[string]struct {
	why      string
	foretold bool
}{
	"spec.domain.resources":       {"An object without content that KubeVirt's API writes", false},
	"spec.domain.firmware":        {"that UUID and serial number will be random", true}, // empty, without both
	"spec.domain.firmware.uuid":   {"that UUID and serial number will be random", true},
	"spec.domain.firmware.serial": {"that UUID and serial number will be random", true},
}

// ofVMI is the stage at which the VMI is explained, and not the VM.
const ofVMI = "its VMI"

// TestExplain: 'kubectl kiln explain' of a manifest, of the halted VM, of the running VM and of its VMI says what KubeVirt's VMI has, field by field, except
// the differences that are listed above.
func TestExplain(t *testing.T) {
	s := newSpace(t)
	began := time.Now()
	manifests := &unstructured.UnstructuredList{Object: map[string]any{"apiVersion": "v1", "kind": "List"}}
	for _, text := range fillers {
		manifests.Items = append(manifests.Items, *s.parsed(text))
		s.create(text)
	}
	names := s.explicable(manifests)
	halted := s.explanations("vm/", names)
	for _, name := range names {
		s.patch(name, `{"spec": {"runStrategy": "Always"}}`)
	}
	made := s.made(names)
	met := map[string]bool{}
	for stage, answers := range map[string]map[string]map[string]any{
		"its manifest": s.foretold(manifests), "the halted VM": halted, "the VM that runs": s.explanations("vm/", names), ofVMI: s.explanations("vmi/", names),
	} {
		for _, name := range names {
			s.compare(name+": explain of "+stage, stage == "its manifest", answers[name], made[name], met)
		}
	}
	page, err := os.ReadFile("../../docs/explanation/beside-kubevirt.md")
	s.ok(err)
	for path, u := range unexplained {
		if !met[path] || !strings.Contains(strings.Join(strings.Fields(string(page)), " "), u.why) {
			t.Errorf("no VM differs in %s (take the line away), or docs/explanation/beside-kubevirt.md does not say '%s'", path, u.why)
		}
	}
	t.Logf("%d VMs in %s", len(names), time.Since(began).Round(time.Second))
}

// made are the leaves of the VMIs that KubeVirt makes, by name. Those whose volumes and nodes are there have run.
func (s space) made(names []string) map[string]map[string]any {
	s.Helper()
	found := map[string]map[string]any{}
	for _, name := range names {
		s.eventually(name+" has a VMI", func() (bool, any) {
			_, err := s.on.Get(s.Context(), s.in("vmi"), name)
			return err == nil, errors.Join(err, fmt.Errorf("VM: %v", s.machine(name).Status))
		})
	}
	for _, name := range names {
		if explained[name] != "" && !strings.Contains(explained[name], "persistentVolumeClaim") {
			s.runs(name)
		}
		found[name] = leaves(s.get("vmi", name).Object)
	}
	return found
}

// foretold returns the explanations of manifests. They know only the configuration of the cluster.
func (s space) foretold(manifests *unstructured.UnstructuredList) map[string]map[string]any {
	s.Helper()
	kubevirt, err := s.on.Get(s.Context(), cluster.In{Namespace: s.on.KubeVirt, Kind: "kubevirt"}, "kubevirt")
	s.ok(err)
	manifests.Items = append(manifests.Items, *kubevirt)
	text, err := manifests.MarshalJSON()
	s.ok(err)
	return s.explain(string(text), "--runtime", "kubevirt", "-f", "-")
}

// explicable creates halted VMs and adds them to manifests: the VMs of explained, and examples that admission allows. It takes the examples with an
// instancetype, or all for 'make nightly'.
func (s space) explicable(manifests *unstructured.UnstructuredList) (names []string) {
	s.Helper()
	for _, name := range slices.Sorted(maps.Keys(explained)) {
		text := `{apiVersion: kubevirt.io/v1, kind: VirtualMachine, metadata: {name: ` + name + `}, spec: {runStrategy: Halted, ` + explained[name] + `}}`
		manifests.Items = append(manifests.Items, *s.parsed(text))
		s.create(text)
		names = append(names, name)
	}
	var examples []*unstructured.Unstructured
	for _, set := range samples.Sets(s) {
		for _, file := range set.Examples(s) {
			examples = append(examples, objects(s, file)...)
		}
	}
	slices.SortStableFunc(examples, func(a, b *unstructured.Unstructured) int { // instancetypes and preferences first
		return cmp.Compare(a.GetAPIVersion(), b.GetAPIVersion())
	})
	for _, object := range examples {
		if vm := s.halted(object); vm != nil {
			manifests.Items = append(manifests.Items, *vm)
			if vm.GetKind() == "VirtualMachine" {
				names = append(names, vm.GetName())
			}
		}
	}
	return names
}

// halted creates the VM of an example, or of its VMI, and an instancetype or preference as it is. It returns what is
// admitted.
func (s space) halted(object *unstructured.Unstructured) *unstructured.Unstructured {
	s.Helper()
	spec, _ := object.Object["spec"].(map[string]any)
	vm := object
	switch object.GetKind() {
	case "VirtualMachine":
		delete(spec, "running")
		if os.Getenv("NIGHTLY") == "" && spec["instancetype"] == nil {
			return nil
		}
		delete(spec, "dataVolumeTemplates") // nothing here imports data
		spec["runStrategy"] = string(v1.RunStrategyHalted)
		if spec["instancetype"] != nil { // some repeat a field of it, which is refused
			unstructured.RemoveNestedField(spec, "template", "spec", "domain", "memory")
		}
	case "VirtualMachineInstance":
		if os.Getenv("NIGHTLY") == "" {
			return nil
		}
		template := map[string]any{"spec": spec, "metadata": map[string]any{}}
		vm = &unstructured.Unstructured{Object: map[string]any{"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine",
			"metadata": map[string]any{"name": object.GetName()}, "spec": map[string]any{"runStrategy": "Halted", "template": template}}}
	case "VirtualMachineInstanceReplicaSet", "VirtualMachineInstancePreset":
		return nil
	}
	if !strings.Contains(vm.GetKind(), "Cluster") {
		vm.SetNamespace(s.name)
	}
	if _, err := s.on.Create(s.Context(), vm); apierrors.IsAlreadyExists(err) && strings.Contains(vm.GetKind(), "Cluster") {
		return vm // of another test
	} else if err != nil {
		s.Logf("%s: %v", vm.GetName(), err)
		return nil
	}
	return vm
}

// explanations returns the explanations of VMs or VMIs in the cluster, by their names.
func (s space) explanations(kind string, names []string) map[string]map[string]any {
	s.Helper()
	var args []string
	for _, name := range names {
		args = append(args, kind+name)
	}
	return s.explain("", args...)
}

// explain returns the fields that 'kubectl kiln explain' gives guests, by the names of these.
func (s space) explain(input string, args ...string) map[string]map[string]any {
	s.Helper()
	out, stderr, err := s.on.Kiln(s.Context(), input, append([]string{"explain", "-n", s.name, "-o", "json"}, args...)...)
	all := map[string]map[string]any{}
	var list struct{ Items []json.RawMessage }
	s.ok(json.Unmarshal([]byte(out), &list))
	for _, answer := range list.Items {
		var one struct {
			Object string
			Fields []struct {
				Path  string
				Value any
			}
		}
		s.ok(json.Unmarshal(answer, &one))
		if len(one.Fields) == 0 {
			s.Errorf("not explained: %s", answer)
		}
		fields := map[string]any{}
		for _, f := range one.Fields {
			flatten(fields, plainPath(f.Path), f.Value)
		}
		all[one.Object[strings.LastIndex(one.Object, "/")+1:]] = fields
	}
	if err != nil {
		s.Errorf("explain %v: %v: %s", args, err, stderr)
	}
	return all
}

// compare reports where an explanation and a VMI differ: in all that the explanation names, and in the VMI's spec.
func (s space) compare(name string, foretold bool, explanation, has map[string]any, met map[string]bool) {
	s.Helper()
	if len(explanation) < 10 {
		s.Errorf("%s: only %d fields", name, len(explanation))
	}
	paths := slices.Collect(maps.Keys(explanation))
	for path := range has {
		if _, named := explanation[path]; !named && strings.HasPrefix(path, "spec.") {
			paths = append(paths, path)
		}
	}
	slices.Sort(paths)
	for _, path := range paths {
		if reflect.DeepEqual(explanation[path], has[path]) || strings.HasSuffix(name, ofVMI) && !strings.HasPrefix(path, "spec.") {
			continue // KubeVirt gives a VMI another annotation when it migrates it, also after it was read here
		}
		if u, listed := unexplained[path]; listed && (foretold || !u.foretold) {
			met[path] = true
			continue
		}
		s.Errorf("%s: %s is %s, KubeVirt has %s", name, path, shown(explanation, path), shown(has, path))
	}
}
