package admission

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

// maxAnswer is the most that a review may be answered with: the API server keeps answers in memory, and logs them.
const maxAnswer = 1 << 20

// paths of all webhooks, in an order that stays.
var paths = []string{MutateVM, MutateVMI, ValidateVM, ValidateVMI, ValidatePreset, ValidateInstancetype, ValidatePreference, ValidateProfile}

// send posts a review and checks what holds of every answer: an HTTP status that says whether there was a request at all, an
// answer of the request, a status that fits, and no more bytes than the API server is willing to keep.
func send(t *testing.T, c *cluster, path string, body []byte) *admissionv1.AdmissionResponse {
	t.Helper()
	recorder := httptest.NewRecorder()
	c.Hooks()[path].ServeHTTP(recorder, httptest.NewRequest(http.MethodPost, path, bytes.NewReader(body)))
	var asked, answered admissionv1.AdmissionReview
	legible := json.Unmarshal(body, &asked) == nil && asked.Request != nil && asked.APIVersion == "admission.k8s.io/v1"
	if size := recorder.Body.Len(); size > maxAnswer {
		t.Errorf("%s: an answer of %d bytes", path, size)
	}
	switch {
	case len(body) > maxReview && recorder.Code == http.StatusRequestEntityTooLarge:
		return nil
	case !legible:
		if recorder.Code != http.StatusBadRequest {
			t.Errorf("%s: status %d for what is no review", path, recorder.Code)
		}
		return nil
	case recorder.Code != http.StatusOK:
		t.Fatalf("%s: status %d: %s", path, recorder.Code, recorder.Body)
	}
	if err := json.Unmarshal(recorder.Body.Bytes(), &answered); err != nil || answered.Response == nil || answered.Response.UID != asked.Request.UID {
		t.Fatalf("%s: %v: %.300s", path, err, recorder.Body)
	}
	checkStatus(t, path, answered.Response)
	return answered.Response
}

// checkStatus: what is refused says why, with a status that tells the user's mistakes from our own; a panic is a bug.
func checkStatus(t *testing.T, path string, response *admissionv1.AdmissionResponse) {
	t.Helper()
	switch {
	case response.Allowed && response.Result != nil:
		t.Errorf("%s: allowed with a status: %+v", path, response.Result)
	case response.Allowed:
	case response.Result == nil || response.Patch != nil:
		t.Errorf("%s: refused without a status, or with a patch: %+v", path, response)
	case response.Result.Code == http.StatusInternalServerError:
		t.Errorf("%s: %s", path, response.Result.Message)
	case response.Result.Code == http.StatusUnprocessableEntity:
		if response.Result.Details == nil || len(response.Result.Details.Causes) == 0 {
			t.Errorf("%s: a refusal without a cause: %+v", path, response.Result)
		}
	case response.Result.Code != http.StatusServiceUnavailable && response.Result.Code != http.StatusForbidden:
		t.Errorf("%s: status %d", path, response.Result.Code)
	}
}

// again sends what the mutating webhook made of the object: it changes nothing more.
func again(t *testing.T, c *cluster, path string, request *admissionv1.AdmissionRequest, response *admissionv1.AdmissionResponse) {
	t.Helper()
	if response == nil || response.Patch == nil || request.Operation != admissionv1.Create {
		return
	}
	patch, err := jsonpatch.DecodePatch(response.Patch)
	if err != nil {
		t.Fatalf("patch %s: %v", response.Patch, err)
	}
	after, err := patch.Apply(request.Object.Raw)
	if err != nil {
		t.Fatalf("patch %s on %s: %v", response.Patch, request.Object.Raw, err)
	}
	second := *request
	second.Object.Raw = after
	if response := send(t, c, path, marshalled(t, &second)); response != nil && response.Patch != nil {
		t.Errorf("%s: admitting what was admitted changes it: %s", path, response.Patch)
	}
}

// marshalled is the review of a request, as an API server sends it.
func marshalled(t testing.TB, request *admissionv1.AdmissionRequest) []byte {
	t.Helper()
	body, err := json.Marshal(request)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Appendf(nil, `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":%s}`, body)
}

// quiet is a cluster whose revisions are forgotten, for thousands of requests.
func quiet(t *testing.T) *cluster {
	c := newCluster(t, catalog)
	return c
}

// FuzzReview sends bytes.
func FuzzReview(f *testing.F) {
	for name, body := range extremes(f) {
		if len(body) < 1<<16 { // the large ones are TestExtremes': a fuzzer that copies megabytes finds nothing
			f.Add(uint8(len(name)), body)
		}
	}
	f.Fuzz(func(t *testing.T, hook uint8, body []byte) {
		send(t, quiet(t), paths[int(hook)%len(paths)], body)
	})
}

// FuzzObject sends well-formed reviews of objects that a fuzzer makes of the corpus' cases.
func FuzzObject(f *testing.F) {
	inputs, err := filepath.Glob("../../test/corpus/*/vm*.yaml")
	if err != nil || len(inputs) == 0 {
		f.Fatalf("no cases: %v", err)
	}
	for i, input := range inputs {
		raw, err := os.ReadFile(input)
		if err != nil {
			f.Fatal(err)
		}
		object, err := yaml.YAMLToJSON(raw)
		if err != nil {
			f.Fatal(err)
		}
		hook := slices.Index(paths, map[bool]string{true: MutateVM, false: MutateVMI}[strings.HasSuffix(input, "vm.yaml")])
		f.Add(uint8(hook), object, []byte("{}"), "alice", i%2 == 0)
		f.Add(uint8(hook+2), object, object, "", true)
	}
	f.Fuzz(func(t *testing.T, hook uint8, object, old []byte, user string, dry bool) {
		if !json.Valid(object) || !json.Valid(old) {
			return
		}
		path, c := paths[int(hook)%len(paths)], quiet(t)
		request := &admissionv1.AdmissionRequest{UID: "review-1", Operation: admissionv1.Create, Namespace: "team", Name: "a", DryRun: &dry,
			Object: runtime.RawExtension{Raw: object}}
		request.UserInfo.Username = user
		if len(old) > 2 {
			request.Operation, request.OldObject.Raw = admissionv1.Update, old
		}
		again(t, c, path, request, send(t, c, path, marshalled(t, request)))
		if dry && len(c.written) > 0 {
			t.Errorf("%s: a dry run wrote %d revisions", path, len(c.written))
		}
	})
}
