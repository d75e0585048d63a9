package beside

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/kilnvm/kiln/test/samples"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// all is the list of guests, which is read once: instancetypes and preferences are created for it.
var all []judged

// guests are the examples, VMs of the catalog's instancetypes and preferences, and guests of the corpus. A set that is not here is left out, and named.
func guests(s space) []judged {
	s.Helper()
	if all != nil {
		return all
	}
	sets := samples.Sets(s)
	for _, set := range sets {
		all = append(all, examples(s, set)...)
	}
	all = append(all, matrix(s, sets[len(sets)-1])...)
	if dir := samples.Shared(s); dir != "" {
		all = append(all, recorded(s, filepath.Join(dir, "conformance", "validate-vmi.jsonl.gz"))...)
	} else {
		s.Log("the corpus is not here (KILN_SHARED): its guests are left out")
	}
	return all
}

// objects reads all objects of a manifest.
func objects(s space, file string) (found []*unstructured.Unstructured) {
	s.Helper()
	text, err := os.ReadFile(file)
	s.ok(err)
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 1<<16)
	for {
		object := &unstructured.Unstructured{}
		if err := decoder.Decode(object); errors.Is(err, io.EOF) {
			return found
		} else if err != nil {
			s.Fatalf("%s: %v", file, err)
		}
		if len(object.Object) > 0 {
			found = append(found, object)
		}
	}
}

// examples are the guests of a set; its instancetypes and preferences are created.
func examples(s space, set samples.Set) (found []judged) {
	s.Helper()
	for _, file := range set.Examples(s) {
		for _, object := range objects(s, file) {
			switch kind := object.GetKind(); {
			case strings.HasPrefix(object.GroupVersionKind().Group, "instancetype."):
				if !strings.Contains(kind, "Cluster") {
					object.SetNamespace(s.name)
				}
				if _, err := s.on.Create(s.Context(), object); err != nil {
					s.Logf("%s: %v", filepath.Base(file), err)
				}
			case kind == "VirtualMachine" || kind == "VirtualMachineInstance" || kind == "VirtualMachineInstanceReplicaSet" || kind == "VirtualMachineInstancePreset":
				object.SetNamespace(s.name)
				found = append(found, judged{set.Name + " example " + filepath.Base(file) + " " + object.GetName(), object})
			}
		}
	}
	return found
}

// matrix are VMs of a catalog: 'make nightly' takes each instancetype with each preference, 'make test' each of them once.
func matrix(s space, set samples.Set) (found []judged) {
	s.Helper()
	var names [2][]string
	for i, file := range []string{"cluster-instancetypes.yaml", "cluster-preferences.yaml"} {
		for _, object := range objects(s, set.Path("catalog", file)) {
			if _, err := s.on.Create(s.Context(), object); err != nil {
				s.Fatalf("%s: %v", object.GetName(), err)
			}
			names[i] = append(names[i], object.GetName())
		}
	}
	pair := func(instancetype, preference string) {
		vm := s.parsed(fmt.Sprintf(`{apiVersion: kubevirt.io/v1, kind: VirtualMachine, metadata: {name: "of-%d", namespace: %q}, spec: {runStrategy: Halted,
instancetype: {name: %q}, preference: {name: %q}, template: {metadata: {}, spec: {domain: {devices: {disks: [{name: root}],
interfaces: [{name: default, masquerade: {}}]}}, networks: [{name: default, pod: {}}],
volumes: [{name: root, containerDisk: {image: 'registry.example/guest:1'}}]}}}}`, len(found), s.name, instancetype, preference))
		found = append(found, judged{"instancetype " + instancetype + " with preference " + preference, vm})
	}
	if os.Getenv("NIGHTLY") == "" {
		for i := range max(len(names[0]), len(names[1])) {
			pair(names[0][i%len(names[0])], names[1][i%len(names[1])])
		}
		return found
	}
	for _, instancetype := range names[0] {
		for _, preference := range names[1] {
			pair(instancetype, preference)
		}
	}
	return found
}

// recorded are guests of the corpus: the first ones by name that reach the webhooks. Which cluster configuration they were recorded with plays no part, since
// both verdicts are new.
func recorded(s space, file string) (found []judged) {
	s.Helper()
	in, err := os.Open(file)
	s.ok(err)
	defer in.Close()
	text, err := gzip.NewReader(in)
	s.ok(err)
	lines := bufio.NewScanner(text)
	lines.Buffer(nil, 1<<24)
	for lines.Scan() && len(found) < recordedGuests {
		var c struct {
			ID, Operation string
			VMI           map[string]any
			Expect        struct{ Stage string }
		}
		s.ok(json.Unmarshal(lines.Bytes(), &c))
		if c.VMI == nil || c.Operation != "" && c.Operation != "CREATE" || c.Expect.Stage == "schema" || c.Expect.Stage == "decode" {
			continue
		}
		object := &unstructured.Unstructured{Object: c.VMI}
		object.SetNamespace(s.name)
		object.SetResourceVersion("")
		object.SetUID("")
		found = append(found, judged{"corpus " + c.ID, object})
	}
	s.ok(lines.Err())
	return found
}
