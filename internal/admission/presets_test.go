package admission

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// matching are n presets of the namespace that match every guest and agree.
func matching(t *testing.T, n int) (all []*unstructured.Unstructured) {
	t.Helper()
	for i := range n {
		all = append(all, document(t, fmt.Sprintf("apiVersion: kubevirt.io/v1\nkind: VirtualMachineInstancePreset\n"+
			"metadata: {name: p%04d, namespace: team, uid: p%d, generation: 1}\nspec: {selector: {}, domain: {devices: {}, cpu: {cores: 1}}}", i, i)))
	}
	return all
}

// Presets are read one by one for their snapshots: the number of those that match bounds the requests.
func TestReadsOfPresetsAreBounded(t *testing.T) {
	const bare = "apiVersion: kubevirt.io/v1\nkind: VirtualMachine\nmetadata: {name: web, annotations: {kilnvm.io/pins: '%s'}}\n" +
		"spec: {runStrategy: Halted, template: {spec: {domain: {devices: {}, memory: {guest: 1Gi}}}}}"
	names := make([]string, 5000)
	for i := range names {
		names[i] = fmt.Sprintf("p%04d-abc", i)
	}
	many, err := json.Marshal(map[string]any{"presets": names})
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name, why, path, object string
		presets, gets           int
		field, warning          string
	}{
		{name: "64 match", why: "each is read", path: MutateVM, object: fmt.Sprintf(bare, `{"presets":""}`), presets: 64, gets: 64},
		{name: "65 match", why: "nothing is read", path: MutateVM, object: fmt.Sprintf(bare, `{"presets":""}`), presets: 65, field: "spec.template.metadata.labels"},
		{name: "65 match without pins", why: "as the controller would find out", path: MutateVM,
			object:  strings.Replace(bare, "annotations: {kilnvm.io/pins: '%s'}", "", 1),
			presets: 65, field: "spec.template.metadata.labels"},
		{name: "pins of 5000", why: "no pin is of so many", path: MutateVM, object: fmt.Sprintf(bare, many), warning: "cannot be read"},
		{name: "pins of 5000 on a guest", path: MutateVMI, warning: "cannot be read",
			object: fmt.Sprintf("apiVersion: kubevirt.io/v1\nkind: VirtualMachineInstance\nmetadata: {name: a, annotations: {kilnvm.io/pins: '%s'}}\n"+
				"spec: {domain: {devices: {}, memory: {guest: 1Gi}}}", many)},
	} {
		t.Run(test.name, func(t *testing.T) {
			presets := matching(t, test.presets)
			server, made := counted(t, presets, presets)
			response := ask(t, server.Hooks()[test.path], create(t, test.object))
			if made.get != test.gets {
				t.Errorf("%s: %d reads, want %d", test.why, made.get, test.gets)
			}
			if test.warning != "" && !strings.Contains(strings.Join(response.Warnings, "\n"), test.warning) {
				t.Errorf("no warning of '%s': %v", test.warning, response.Warnings)
			}
			if test.field == "" {
				if !response.Allowed {
					t.Errorf("refused: %+v", response.Result)
				}
				return
			}
			if response.Allowed || response.Result.Code != http.StatusUnprocessableEntity {
				t.Fatalf("%+v", response)
			}
			causes := response.Result.Details.Causes
			if len(causes) != 1 || causes[0].Field != test.field || !strings.Contains(causes[0].Message, "65 presets match, at most 64 are allowed: 'p0000'") {
				t.Errorf("%+v", causes)
			}
		})
	}
}
