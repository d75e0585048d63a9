package main

import (
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestChangedFields: a field that only one version has is one line with its fields below, whichever kinds have it.
func TestChangedFields(t *testing.T) {
	older := map[string]string{"VirtualMachine.spec.running": "boolean"}
	for _, path := range []string{"VirtualMachine", "VirtualMachine.spec", "VirtualMachine.spec.template", "VirtualMachine.spec.template.spec",
		"VirtualMachine.spec.template.spec.volumes", "VirtualMachine.spec.template.spec.volumes[]", "VirtualMachineInstance", "VirtualMachineInstance.spec",
		"VirtualMachineInstance.spec.volumes", "VirtualMachineInstance.spec.volumes[]"} {
		older[path] = "object"
	}
	newer := maps.Clone(older)
	delete(newer, "VirtualMachine.spec.running")
	newer["VirtualMachine.spec"] = "object, requires template"
	for _, root := range []string{"VirtualMachine.spec.template.spec.volumes[].path", "VirtualMachineInstance.spec.volumes[].path"} {
		newer[root], newer[root+".list"], newer[root+".list[]"] = "object", "array", "string"
	}
	want := map[string]string{"VirtualMachine.spec": "object, requires template", "VMI spec.volumes[].path": "object, 2 below"}
	if diff := cmp.Diff(want, changedFields(newer, older)); diff != "" {
		t.Error(diff)
	}
	want = map[string]string{"VirtualMachine.spec": "object", "VirtualMachine.spec.running": "boolean"}
	if diff := cmp.Diff(want, changedFields(older, newer)); diff != "" {
		t.Error(diff)
	}
}

// TestCountLeaves: a default is named by its field, also in a list, and null is no default.
func TestCountLeaves(t *testing.T) {
	counts := map[string]int{}
	countLeaves(counts, "", map[string]any{"disks": []any{map[string]any{"name": "a"}}},
		map[string]any{"disks": []any{map[string]any{"name": "a", "bus": "sata", "created": nil}}})
	if diff := cmp.Diff(map[string]int{"+ default .disks[].bus: sata": 1}, counts); diff != "" {
		t.Error(diff)
	}
}
