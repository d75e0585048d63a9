package admission

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/kilnvm/kiln/internal/resolve"
	"github.com/kilnvm/kiln/internal/revision"
	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func TestPinsAndNothingElse(t *testing.T) {
	c := newCluster(t, catalog)
	request := create(t, sparse)
	response := ask(t, c.Hooks()[MutateVM], request)
	if len(c.written) != 1 {
		t.Fatalf("wrote %d revisions, want the size's", len(c.written))
	}
	want := fmt.Sprintf(`[{"op":"add","path":"/metadata/annotations","value":`+
		`{"kilnvm.io/identity":"review-1","kilnvm.io/pins":"{\"instancetype\":\"%s\"}"}}]`, c.written[0].Name)
	if string(response.Patch) != want {
		t.Errorf("patch %s, want %s: the spec that was applied is the spec that is read", response.Patch, want)
	}
	again := create(t, patched(t, request, response))
	if second := ask(t, c.Hooks()[MutateVM], again); second.Patch != nil || second.PatchType != nil {
		t.Errorf("admitting what was admitted changes it: %s", second.Patch)
	}
}

func TestDryRunWritesNothingAndAnswersAlike(t *testing.T) {
	c := newCluster(t, catalog)
	request := create(t, sparse)
	request.DryRun = new(true)
	dry := ask(t, c.Hooks()[MutateVM], request)
	if len(c.written) != 0 {
		t.Errorf("a dry run wrote %d revisions", len(c.written))
	}
	request.DryRun = new(false)
	real := ask(t, c.Hooks()[MutateVM], request)
	but := strings.Replace(string(real.Patch), `"kilnvm.io/identity":"review-1",`, "", 1)
	if but != string(dry.Patch) || but == string(real.Patch) || len(c.written) != 1 {
		t.Errorf("dry run %s, real run %s, %d written; want the same, except the identity", dry.Patch, real.Patch, len(c.written))
	}
	validated := create(t, patched(t, request, dry))
	if response := ask(t, c.Hooks()[ValidateVM], validated); !response.Allowed || len(response.Warnings) > 0 {
		t.Errorf("validation of a dry run, whose revision does not exist: %+v", response)
	}
}

func TestSnapshotThatCannotBeWritten(t *testing.T) {
	c := newCluster(t, catalog)
	c.Write = func(context.Context, ...revision.Draft) error { return errors.New("etcd is full") }
	response := ask(t, c.Hooks()[MutateVM], create(t, sparse))
	if response.Allowed || response.Result.Code != http.StatusServiceUnavailable || response.Patch != nil {
		t.Errorf("%+v: a VM must not exist before its snapshot, and it is not the user's mistake", response)
	}
}

func TestUpdatesThatAreNotJudged(t *testing.T) {
	// Neither the instancetype nor the revision exists: to resolve anything would fail or warn.
	pinned := strings.Replace(sparse, "name: web,", "name: web, annotations: {kilnvm.io/pins: '{\"instancetype\":\"small-gone\"}'},", 1)
	for _, test := range []struct{ name, why, before, after, patch string }{
		{name: "label", why: "labels need no catalog", before: pinned, after: strings.Replace(pinned, "name: web,", "name: web, labels: {a: b},", 1)},
		{name: "deleted", why: "finalizers go whatever became of the catalog", before: pinned,
			after: strings.Replace(sparse, "name: web,", "name: web, deletionTimestamp: '2026-01-01T00:00:00Z',", 1)},
		{name: "replace", why: "a manifest without pins keeps them", before: pinned, after: sparse,
			patch: `[{"op":"add","path":"/metadata/annotations","value":{"kilnvm.io/pins":"{\"instancetype\":\"small-gone\"}"}}]`},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := newCluster(t)
			request := update(t, test.before, test.after)
			response := ask(t, c.Hooks()[MutateVM], request)
			if !response.Allowed || string(response.Patch) != test.patch || len(response.Warnings) > 0 {
				t.Fatalf("%s: allowed %v, patch %s, warnings %v, %+v", test.why, response.Allowed, response.Patch, response.Warnings, response.Result)
			}
			validated := ask(t, c.Hooks()[ValidateVM], update(t, test.before, patched(t, request, response)))
			if !validated.Allowed || len(validated.Warnings) > 0 {
				t.Errorf("%s: %+v", test.why, validated)
			}
		})
	}
}

func TestVMI(t *testing.T) {
	c := newCluster(t)
	request := create(t, "apiVersion: kubevirt.io/v1alpha3\nkind: VirtualMachineInstance\nmetadata: {name: a}\n"+
		"spec: {domain: {devices: {}, memory: {guest: 1Gi}}}")
	response := ask(t, c.Hooks()[MutateVMI], request)
	if response.Patch == nil {
		t.Fatal("a sparse VMI was taken for an explicit one")
	}
	explicit := create(t, patched(t, request, response))
	if second := ask(t, c.Hooks()[MutateVMI], explicit); second.Patch != nil {
		t.Errorf("a VMI that is re-created from its own YAML changes: %s", second.Patch)
	}
	if response := ask(t, c.Hooks()[ValidateVMI], explicit); !response.Allowed {
		t.Errorf("an explicit VMI is refused: %+v", response.Result)
	}
	lost := create(t, "apiVersion: kubevirt.io/v1\nkind: VirtualMachineInstance\n"+
		"metadata: {name: a, annotations: {kilnvm.io/pins: '{\"instancetype\":\"gone\"}'}}\nspec: {domain: {devices: {}}}")
	if response := ask(t, c.Hooks()[MutateVMI], lost); response.Allowed || response.Result.Code != http.StatusServiceUnavailable {
		t.Errorf("a revision that is not there: %+v, want 503", response.Result)
	}
}

func TestAnswersToMistakesAndFaults(t *testing.T) {
	many := make(field.ErrorList, 20000)
	for i := range many {
		many[i] = field.Invalid(field.NewPath("spec").Index(i), "x", strings.Repeat("bad ", 5))
	}
	two := field.ErrorList{field.Required(field.NewPath("spec", "a"), "give one"), field.Invalid(field.NewPath("spec", "b"), "x", "is wrong")}
	for _, test := range []struct {
		name, why string
		handle    handler
		code      int32
		causes    int
		last      string
	}{
		{name: "mistakes", why: "every cause, each with its field", code: 422, causes: 2, last: "is wrong",
			handle: func(context.Context, *admissionv1.AdmissionRequest) (answer, error) {
				return answer{}, &resolve.Refusal{Errors: two}
			}},
		{name: "very many", why: "an answer of megabytes helps nobody", code: 422, causes: -1, last: "and ",
			handle: func(context.Context, *admissionv1.AdmissionRequest) (answer, error) {
				return answer{}, &resolve.Refusal{Errors: many}
			}},
		{name: "fault", why: "not the user's mistake", code: 503, last: "",
			handle: func(context.Context, *admissionv1.AdmissionRequest) (answer, error) {
				return answer{}, errors.New("cache is broken")
			}},
		{name: "panic", why: "the process lives on, and the log can be searched", code: 500,
			handle: func(context.Context, *admissionv1.AdmissionRequest) (answer, error) { panic("bug") }},
	} {
		t.Run(test.name, func(t *testing.T) {
			result := ask(t, Hook{handle: test.handle, capacity: newCapacity()}, create(t, sparse)).Result
			if result == nil || result.Code != test.code {
				t.Fatalf("%s: %+v, want %d", test.why, result, test.code)
			}
			if test.code == 500 && !strings.Contains(result.Message, "review-1") {
				t.Errorf("%s: message '%s' lacks the request", test.why, result.Message)
			}
			if test.code != 422 {
				return
			}
			causes := result.Details.Causes
			if test.causes >= 0 && len(causes) != test.causes || !strings.Contains(causes[len(causes)-1].Message, test.last) {
				t.Errorf("%s: %d causes, last %+v", test.why, len(causes), causes[len(causes)-1])
			}
			size, err := json.Marshal(causes)
			if err != nil || len(size) > 2*maxCauses {
				t.Errorf("%d bytes of causes, %v", len(size), err)
			}
		})
	}
}

func TestWrongTypesAreTheUsersMistake(t *testing.T) {
	c := newCluster(t)
	result := ask(t, c.Hooks()[ValidateVM], create(t, strings.Replace(sparse, "template: {", "template: {metadata: {labels: {a: true}}, ", 1))).Result
	if result == nil || result.Code != 422 || result.Details.Causes[0].Field != "spec.template.metadata.labels[a]" {
		t.Errorf("%+v: the schema lets the template's metadata pass, and YAML makes true of yes", result)
	}
}

func TestBytesThatAreNoReview(t *testing.T) {
	for _, body := range []string{"", "{}", `{"apiVersion":"admission.k8s.io/v1beta1","request":{}}`, "[]"} {
		recorder := httptest.NewRecorder()
		Hook{capacity: newCapacity()}.ServeHTTP(recorder, httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body)))
		if recorder.Code != http.StatusBadRequest {
			t.Errorf("'%s': %d", body, recorder.Code)
		}
	}
}
