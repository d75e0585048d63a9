package e2e

import (
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
)

// neighbour is a webhook of somebody else that the API server calls after ours: it adds a label. It also passes what it is
// asked on to our webhook, and keeps our answers, since the API server tells nobody what a call has answered.
type neighbour struct {
	space
	server *httptest.Server
	mutex  sync.Mutex
	passed []passed
	// change is what the neighbour adds to an object without its label.
	change string
}

// patch has the neighbour change VMs and VMIs by another patch than addLabel, which must add its label too.
func (n *neighbour) patch(change string) {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	n.change = change
}

// passed is one call of our webhook by way of the neighbour.
type passed struct {
	kind, name string
	labelled   bool
	response   *admissionv1.AdmissionResponse
}

const addLabel = `[{"op":"add","path":"/metadata/labels","value":{"neighbour":"was-here"}}]`

func (n *neighbour) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	var review admissionv1.AdmissionReview
	var object struct {
		Metadata struct {
			Name   string
			Labels map[string]string
		}
	}
	if err := json.Unmarshal(body, &review); err != nil || json.Unmarshal(review.Request.Object.Raw, &object) != nil {
		http.Error(w, "not a review", http.StatusBadRequest)
		return
	}
	labelled := object.Metadata.Labels["neighbour"] != ""
	response := &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true}
	switch {
	case r.URL.Path != "/label":
		if response, err = ask(r.URL.Path, body); err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		n.mutex.Lock()
		n.passed = append(n.passed, passed{review.Request.Kind.Kind, object.Metadata.Name, labelled, response})
		n.mutex.Unlock()
	case !labelled:
		json := admissionv1.PatchTypeJSONPatch
		n.mutex.Lock()
		response.PatchType, response.Patch = &json, []byte(n.change)
		n.mutex.Unlock()
	}
	review.Request, review.Response = nil, response
	_ = json.NewEncoder(w).Encode(review)
}

// newNeighbour registers the neighbour for this test's namespace, in a configuration that sorts after ours.
func newNeighbour(s space) *neighbour {
	s.Helper()
	n := &neighbour{space: s, change: addLabel}
	n.server = httptest.NewTLSServer(n)
	s.Cleanup(n.server.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: n.server.Certificate().Raw})
	both := []string{"virtualmachines", "virtualmachineinstances"}
	hooks := []any{}
	for _, hook := range []struct {
		name, path string
		resources  []string
	}{
		// Called in this order: ours, by way of the neighbour, before the label is there.
		{"vm", mutateVM, both[:1]}, {"vmi", mutateVMI, both[1:]}, {"label", "/label", both},
	} {
		hooks = append(hooks, map[string]any{
			"name": hook.name + ".neighbour.example.com", "admissionReviewVersions": []string{"v1"}, "sideEffects": "NoneOnDryRun",
			"reinvocationPolicy": "IfNeeded", "failurePolicy": "Fail",
			"clientConfig":      map[string]any{"url": n.server.URL + hook.path, "caBundle": base64.StdEncoding.EncodeToString(ca)},
			"namespaceSelector": map[string]any{"matchLabels": map[string]any{"kubernetes.io/metadata.name": s.name}},
			"rules": []any{map[string]any{"apiGroups": []string{"kubevirt.io"}, "apiVersions": []string{"v1"},
				"resources": hook.resources, "operations": []string{"CREATE"}}},
		})
	}
	name := "zz-" + s.name
	raw, err := json.Marshal(map[string]any{"apiVersion": "admissionregistration.k8s.io/v1",
		"kind": "MutatingWebhookConfiguration", "metadata": map[string]any{"name": name}, "webhooks": hooks})
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { s.kubectlAfter("delete", "mutatingwebhookconfiguration", name) })
	s.create(string(raw))
	s.eventually("the API server calls the neighbour", func() bool {
		probe := s.must(s.kubectl(vm("probe"), "create", "--dry-run=server", "-o", "jsonpath={.metadata.labels.neighbour}", "-f", "-"))
		return probe.stdout == "was-here"
	})
	return n
}

// calls are the answers of our webhook about one object.
func (n *neighbour) calls(kind, name string) []passed {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	var found []passed
	for _, p := range n.passed {
		if p.kind == kind && p.name == name {
			found = append(found, p)
		}
	}
	return found
}

// When a webhook behind ours changes the object, the API server asks ours again within the same request.
func TestCalledAgainAfterASecondWebhook(t *testing.T) {
	s := newSpace(t)
	n := newNeighbour(s)
	s.create(vm("demo", running...))
	s.eventually("the VM has its VMI", func() bool { return s.exists("vmi", "demo") })
	for _, kind := range []string{"VirtualMachine", "VirtualMachineInstance"} {
		calls := n.calls(kind, "demo")
		again := 0
		for _, call := range calls {
			if call.labelled {
				again++
			}
			if !call.response.Allowed || len(call.response.Patch) > 0 {
				t.Errorf("%s, labelled: %t: what our webhook has just admitted gets %+v", kind, call.labelled, call.response)
			}
		}
		if again == 0 || again == len(calls) {
			t.Errorf("%s: want a call before the label and one after, got %d, of which %d after", kind, len(calls), again)
		}
		if got := s.get(kind, "demo").GetLabels()["neighbour"]; got != "was-here" {
			t.Errorf("%s: the neighbour's label is '%s'", kind, got)
		}
	}
	if len(pins(t, s.get("vm", "demo"))) != 2 {
		t.Error("the pins got lost on the way")
	}
}
