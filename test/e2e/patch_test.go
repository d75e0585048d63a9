package e2e

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"testing"

	jsonpatch5 "github.com/evanphx/json-patch/v5"
	"github.com/google/go-cmp/cmp"
	jsonpatch4 "gopkg.in/evanphx/json-patch.v4"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// review posts an object to one of the webhook's paths and returns the response, which must allow it.
func (s space) review(path string, object []byte) *admissionv1.AdmissionResponse {
	s.Helper()
	response := s.post(path, object)
	if !response.Allowed {
		s.Fatalf("refused: %v", response.Result)
	}
	return response
}

// post asks for the creation of an object as the API server does.
func (s space) post(path string, object []byte) *admissionv1.AdmissionResponse {
	s.Helper()
	dry := true
	raw, err := json.Marshal(admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"},
		Request: &admissionv1.AdmissionRequest{
			UID: "test", Operation: admissionv1.Create, Namespace: s.name, DryRun: &dry, Object: runtime.RawExtension{Raw: object}},
	})
	if err != nil {
		s.Fatal(err)
	}
	response, err := ask(path, raw)
	if err != nil {
		s.Fatal(err)
	}
	return response
}

// ask posts a review to our webhook.
func ask(path string, review []byte) (*admissionv1.AdmissionResponse, error) {
	answer, err := webhookClient().Post(shared.Webhook+path, "application/json", bytes.NewReader(review))
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		return nil, err
	}
	var got admissionv1.AdmissionReview
	if err := json.Unmarshal(body, &got); err != nil || got.Response == nil {
		return nil, fmt.Errorf("%s is no answer to a review: %w", body, err)
	}
	return got.Response, nil
}

// webhookClient trusts our webhook's certificate and no other.
func webhookClient() *http.Client {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(shared.CA)
	return &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}}
}

// applied applies a patch with both libraries, which must agree.
func (s space) applied(object, patch []byte) []byte {
	s.Helper()
	four, err := jsonpatch4.DecodePatch(patch)
	if err != nil {
		s.Fatal(err)
	}
	first, err := four.Apply(object)
	if err != nil {
		s.Fatalf("json-patch v4 refuses %s: %v", patch, err)
	}
	five, err := jsonpatch5.DecodePatch(patch)
	if err != nil {
		s.Fatal(err)
	}
	second, err := five.Apply(object)
	if err != nil {
		s.Fatalf("json-patch v5 refuses %s: %v", patch, err)
	}
	if !jsonpatch5.Equal(first, second) {
		s.Fatalf("v4 and v5 differ:\n%s\n%s", first, second)
	}
	return first
}

const (
	mutateVM  = "/mutate/virtualmachines"
	mutateVMI = "/mutate/virtualmachineinstances"
)

// What was admitted once is left alone, also after another webhook has added something in between (re-invocation).
func TestAdmittingAgainGivesAnEmptyPatch(t *testing.T) {
	s := newSpace(t)
	s.create(vm("demo", running...))
	s.eventually("the VM has its VMI", func() bool { return s.exists("vmi", "demo") })
	guest := s.get("vmi", "demo")
	guest.SetOwnerReferences(nil) // only a controller may make the VM its owner, and this review has no user
	guest.SetLabels(map[string]string{"added.example.com/by": "another webhook"})
	for path, object := range map[string]*unstructured.Unstructured{mutateVM: s.get("vm", "demo"), mutateVMI: guest} {
		raw, err := object.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		if response := s.review(path, raw); response.Patch != nil {
			t.Errorf("%s patches what it has admitted: %s", path, response.Patch)
		}
	}
}

func TestPatchesApplyWithBothLibraries(t *testing.T) {
	s := newSpace(t)
	for _, test := range []struct{ name, path, object string }{
		{"vm", mutateVM, s.must(s.kubectl(vm("demo"), "create", "--dry-run=client", "-o", "json", "-f", "-")).stdout},
		{"vmi", mutateVMI, `{"apiVersion":"kubevirt.io/v1","kind":"VirtualMachineInstance","metadata":{"name":"bare"},
			"spec":{"domain":{"devices":{"disks":[{"name":"data"}]},"memory":{"guest":"64Mi"},"newer":{"field":1}},
			"volumes":[{"name":"data","emptyDisk":{"capacity":"1Gi"}}]}}`},
		{"vmi without anything", mutateVMI,
			`{"apiVersion":"kubevirt.io/v1","kind":"VirtualMachineInstance","metadata":{"name":"bare"},"spec":{"domain":{"devices":null,"memory":{"guest":"64Mi"}}}}`},
	} {
		response := s.review(test.path, []byte(test.object))
		if response.Patch == nil {
			t.Errorf("%s: nothing was patched", test.name)
			continue
		}
		admitted := s.applied([]byte(test.object), response.Patch)
		if again := s.review(test.path, admitted); again.Patch != nil {
			t.Errorf("%s: the second admission patches %s", test.name, again.Patch)
		}
	}
}

// A VMI written to a file and created anew is the same VMI.
func TestVMIReCreatedFromItsOwnYAML(t *testing.T) {
	s := newSpace(t)
	s.create(vm("demo", running...))
	s.eventually("the VM has its VMI", func() bool { return s.exists("vmi", "demo") })
	first := s.get("vmi", "demo")
	copied := first.DeepCopy()
	for _, set := range []string{"uid", "resourceVersion", "creationTimestamp", "generation", "managedFields", "ownerReferences", "finalizers"} {
		unstructured.RemoveNestedField(copied.Object, "metadata", set)
	}
	unstructured.RemoveNestedField(copied.Object, "status")
	copied.SetName("again")
	raw, err := copied.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	if response := s.review(mutateVMI, raw); response.Patch != nil {
		t.Errorf("what comes from its own file is patched: %s", response.Patch)
	}
	s.create(string(raw))
	if diff := cmp.Diff(field(first, "spec"), field(s.get("vmi", "again"), "spec")); diff != "" {
		t.Errorf("the spec of the VMI changed on its way through a file:\n%s", diff)
	}
}
