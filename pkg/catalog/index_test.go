package catalog

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestIndex lists two instancetypes of one spec and a preference of another catalog's namespace.
func TestIndex(t *testing.T) {
	all := objects(t, `
metadata: {name: large, labels: {kilnvm.io/lifecycle: deprecated}, annotations: {kilnvm.io/replaced-by: huge, openshift.io/display-name: Large}}
spec: {cpu: {guest: 8, dedicatedCPUPlacement: true, isolateEmulatorThread: false}, memory: {guest: 16Gi, hugepages: {pageSize: 2Mi}},
  gpus: [{name: one, deviceName: nvidia.com/A}], nodeSelector: {kubernetes.io/arch: amd64}}`, `
metadata: {name: huge}
spec: {cpu: {guest: 8, dedicatedCPUPlacement: true, isolateEmulatorThread: false}, memory: {guest: 16384Mi, hugepages: {pageSize: 2Mi}},
  gpus: [{name: one, deviceName: nvidia.com/A}], nodeSelector: {kubernetes.io/arch: amd64}}`, `
kind: VirtualMachinePreference
metadata: {name: windows, namespace: team}
spec: {requirements: {cpu: {guest: 2}, memory: {guest: 4Gi}}, firmware: {preferredEfi: {}}, devices: {preferredTPM: {}}}`)
	raw, err := json.Marshal(IndexOf(all, time.Unix(0, 0)))
	if err != nil {
		t.Fatal(err)
	}
	var got map[string][]map[string]any
	var head struct{ APIVersion, Kind string }
	if err := json.Unmarshal(raw, &head); err != nil || head.APIVersion != "kilnvm.io/v1alpha1" || head.Kind != indexKind {
		t.Errorf("%+v, %v", head, err)
	}
	_ = json.Unmarshal(raw, &got) // the head is no list: the rest is read all the same
	if len(got["instancetypes"]) != 2 || got["instancetypes"][0]["spec"] != got["instancetypes"][1]["spec"] {
		t.Fatalf("instancetypes %v: want two of one spec", got["instancetypes"])
	}
	for _, entries := range got {
		for _, entry := range entries {
			delete(entry, "spec")
		}
	}
	want := map[string][]map[string]any{
		"instancetypes": {
			{"kind": "VirtualMachineClusterInstancetype", "name": "huge", "lifecycle": "active", "cpus": 8.0, "memory": "16Gi", "bytes": float64(16 << 30), "gpus": 1.0,
				"architectures": []any{"amd64"}, "features": []any{"dedicated CPUs", "hugepages 2Mi", "node selector"}},
			{"kind": "VirtualMachineClusterInstancetype", "name": "large", "displayName": "Large", "lifecycle": "deprecated", "replacedBy": "huge",
				"labels": map[string]any{"kilnvm.io/lifecycle": "deprecated"}, "cpus": 8.0, "memory": "16Gi", "bytes": float64(16 << 30), "gpus": 1.0,
				"architectures": []any{"amd64"}, "features": []any{"dedicated CPUs", "hugepages 2Mi", "node selector"}},
		},
		"preferences": {{"kind": "VirtualMachinePreference", "namespace": "team", "name": "windows", "lifecycle": "active",
			"cpus": 2.0, "memory": "4Gi", "bytes": float64(4 << 30), "features": []any{"EFI", "TPM"}}},
	}
	if diff := cmp.Diff(want["instancetypes"], got["instancetypes"]); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(want["preferences"], got["preferences"]); diff != "" {
		t.Error(diff)
	}
}

// TestMeets has the preference that an instancetype just meets, and its neighbours.
func TestMeets(t *testing.T) {
	all := objects(t, "metadata: {name: small}\nspec: {cpu: {guest: 2}, memory: {guest: 4Gi}}",
		"kind: p\nmetadata: {name: just}\nspec: {requirements: {cpu: {guest: 2}, memory: {guest: 4Gi}}}",
		"kind: p\nmetadata: {name: more-cpus}\nspec: {requirements: {cpu: {guest: 3}}}",
		"kind: p\nmetadata: {name: more-memory}\nspec: {requirements: {memory: {guest: 4097Mi}}}",
		"kind: VirtualMachinePreference\nmetadata: {name: namespaced, namespace: a}\nspec: {}",
		"kind: VirtualMachineInstancetype\nmetadata: {name: elsewhere, namespace: b}\nspec: {cpu: {guest: 2}, memory: {guest: 4Gi}}")
	small, elsewhere := all[0], all[5]
	for i, want := range []bool{false, true, false, false, true, false} {
		if got := Meets(small, all[i]); got != want {
			t.Errorf("small and %s: %v, want %v", all[i].Name, got, want)
		}
		if got := Meets(all[i], small); got != want {
			t.Errorf("%s and small: %v, want %v", all[i].Name, got, want)
		}
	}
	if Meets(elsewhere, all[4]) {
		t.Error("an instancetype meets a preference of another namespace")
	}
}
