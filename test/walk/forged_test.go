package walk

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"

	"sigs.k8s.io/yaml"
)

// records of hardware: none of them was written by a launcher.
var records = []string{`{}`, `{"devices":{"disk.data":{"drive":"4000000000:0:0:0"}}}`, `{"devices":{"disk.data":{"pci":"0000:ff:1f.7"}}}`,
	`{"machine":"pc-q35-99.0"}`,
	`{"devices":{"x":{"drive":"9:9:9:9"}}}`, `{"numa":[{"cpus":"0-4000000000","memoryKiB":1}]}`, `{"video":"qxl"}`, `{"vsock":"3"}`, `{"freePorts":-1}`}

// forged is a record as a value, with what the schema wants.
func forged(t *testing.T, record string) map[string]any {
	t.Helper()
	hardware := map[string]any{"defaults": "a", "digest": ""}
	if err := json.Unmarshal([]byte(record), &hardware); err != nil {
		t.Fatal(err)
	}
	return hardware
}

func forge(w walker, o map[string]any) {
	if spec, isObject := o["spec"].(map[string]any); isObject {
		spec["hardware"] = forged(w.T, oneOf(w, records))
	}
}

// forgeRecords makes a guest of each forged record that the launcher is to start: at random too few would get so far. An administrator has
// restored the records; those that are refused leave a guest without.
func (a *tenant) forgeRecords() {
	a.Helper()
	list := resource{group: "kubevirt.io", version: "v1", name: "virtualmachineinstances", namespaced: true}
	restored := resource{group: "kilnvm.io", version: "v1alpha1", name: "guesthardwares", namespaced: true}
	for i, record := range records {
		name := fmt.Sprintf("forged-%d", i)
		hardware, err := json.Marshal(map[string]any{"apiVersion": "kilnvm.io/v1alpha1", "kind": "GuestHardware", "metadata": map[string]any{"name": name},
			"spec": map[string]any{"hardware": forged(a.T, record)}})
		if err != nil {
			a.Fatal(err)
		}
		a.administrator().send(request{method: http.MethodPost, path: restored.path(a.own, ""), contentType: "application/json", body: hardware})
		vmi := map[string]any{}
		if err := yaml.Unmarshal([]byte("{spec: "+guestSpec+"}"), &vmi); err != nil {
			a.Fatal(err)
		}
		vmi["apiVersion"], vmi["kind"] = "kubevirt.io/v1", "VirtualMachineInstance"
		vmi["metadata"] = map[string]any{"name": name}
		guest(vmi)["nodeSelector"] = map[string]any{"machine": a.machine}
		raw, err := json.Marshal(vmi)
		if err != nil {
			a.Fatal(err)
		}
		a.ask(request{method: http.MethodPost, path: list.path(a.own, ""), contentType: "application/json", body: raw})
	}
}

// forgedAreAnswered waits until each guest of a forged record that was let in has a condition: that it runs, or why not. A launcher that
// ends over one answers none.
func (w *world) forgedAreAnswered() {
	w.Helper()
	unanswered := ""
	if !soon(func() bool {
		unanswered = w.kubectl("", "get", "vmi", "-n", tenantSpace, "-o", `go-template={{range .items}}{{if not .metadata.deletionTimestamp}}`+
			`{{if or (not .status) (not .status.conditions)}}{{.metadata.name}} {{end}}{{end}}{{end}}`)
		return unanswered == ""
	}) {
		w.Errorf("the launcher does not answer these guests of forged records: %s", unanswered)
	}
}
