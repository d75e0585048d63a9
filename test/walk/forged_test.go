package walk

import (
	"encoding/json"
	"fmt"
	"net/http"

	"sigs.k8s.io/yaml"
)

// records of hardware: none of them was written by a launcher.
var records = []string{`{`, `{}`, `garbage`, `{"devices":{"disk.data":{"drive":"4000000000:0:0:0"}}}`,
	`{"devices":{"disk.data":{"pci":"0000:ff:1f.7"}}}`, `{"machine":"pc-q35-99.0"}`,
	`{"devices":{"x":{"drive":"9:9:9:9"}}}`, `{"numa":[{"cpus":"0-4000000000"}]}`, `{"video":"qxl"}`, `{"vsock":3}`}

func forge(w walker, o map[string]any) {
	inMetadata(o, "annotations")["kilnvm.io/frontend"] = oneOf(w, records)
}

// forgeRecords makes a guest of each forged record that the launcher is to start: at random too few would get so far.
func (a *tenant) forgeRecords() {
	a.Helper()
	list := resource{group: "kubevirt.io", version: "v1", name: "virtualmachineinstances", namespaced: true}
	for i, record := range records {
		vmi := map[string]any{}
		if err := yaml.Unmarshal([]byte("{spec: "+guestSpec+"}"), &vmi); err != nil {
			a.Fatal(err)
		}
		vmi["apiVersion"], vmi["kind"] = "kubevirt.io/v1", "VirtualMachineInstance"
		vmi["metadata"] = map[string]any{"name": fmt.Sprintf("forged-%d", i), "annotations": map[string]any{"kilnvm.io/frontend": record}}
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
		unanswered = w.kubectl("", "get", "vmi", "-n", tenantSpace, "-o",
			`go-template={{range .items}}{{if not .metadata.deletionTimestamp}}{{if or (not .status) (not .status.conditions)}}{{.metadata.name}} {{end}}{{end}}{{end}}`)
		return unanswered == ""
	}) {
		w.Errorf("the launcher does not answer these guests of forged records: %s", unanswered)
	}
}
