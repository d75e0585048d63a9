package admission

import (
	"encoding/json"
	"fmt"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/kilnvm/kiln/pkg/validate"
	admissionv1 "k8s.io/api/admission/v1"
)

func reviewOf(kind, object string) []byte {
	return fmt.Appendf(nil, `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"review-1","operation":"CREATE",`+
		`"name":"a","namespace":"team","kind":{"kind":%q},"object":%s}}`, kind, object)
}

// allocated are the bytes that answering takes.
func allocated(t *testing.T, hook Hook, body []byte) (uint64, *admissionv1.AdmissionResponse) {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	raw, err := hook.Answer(t.Context(), body)
	runtime.ReadMemStats(&after)
	var answered admissionv1.AdmissionReview
	if err != nil || json.Unmarshal(raw, &answered) != nil {
		t.Fatalf("%v: %.200s", err, raw)
	}
	return after.TotalAlloc - before.TotalAlloc, answered.Response
}

// TestEveryListIsBounded tries each list and map of each type, also of a newer API. As many of its smallest elements as fit into 3 MiB cost a few times the
// bytes of the review, and the answer is one cause, at the list.
func TestEveryListIsBounded(t *testing.T) {
	const times = 4
	for _, judged := range judgedTypes {
		all := listsOf(judged.of, "", "%s")
		if len(all) < 5 {
			t.Errorf("%s: %d lists and maps were found", judged.name, len(all))
		}
		hooks, worst, at := newCluster(t, catalog).Hooks(), uint64(0), ""
		for i, l := range all {
			size := 3 << 20
			if judged.name != "VirtualMachine" || !strings.HasPrefix(l.path, "spec.") {
				size = 256 << 10 // the spec of a guest is a VM's too
			}
			n := l.most(size)
			body := reviewOf(judged.name, l.many(n))
			used, response := allocated(t, hooks[judged.hooks[i%len(judged.hooks)]], body)
			if used > worst {
				worst, at = used, l.path
			}
			if used > times*uint64(len(body)) {
				t.Errorf("%s: %s: %d bytes for a review of %d", judged.name, l.path, used, len(body))
			}
			result := response.Result
			if response.Allowed || result.Code != http.StatusUnprocessableEntity || len(result.Details.Causes) != 1 {
				t.Fatalf("%s: %s: %+v", judged.name, l.path, result)
			}
			if cause := result.Details.Causes[0]; cause.Field != l.path || cause.Type != "FieldValueTooMany" ||
				!strings.Contains(cause.Message, strconv.Itoa(n)) || !strings.Contains(cause.Message, "at most ") {
				t.Errorf("%s: %s: %+v, want %d", judged.name, l.path, cause, n)
			}
		}
		t.Logf("%s: %d lists and maps; most is allocated for %s: %d KiB", judged.name, len(all), at, worst>>10)
	}
}

// What is within the bounds is judged, at a cost that is bounded too.
func TestWhatIsWithinTheBoundsIsAffordable(t *testing.T) {
	const most = 192 << 20 // in all, most of which is garbage at once
	for _, judged := range judgedTypes {
		hooks, worst, at := newCluster(t, catalog).Hooks(), uint64(0), ""
		for i, l := range append(listsOf(judged.of, "", "%s"), nested[judged.name]...) {
			n := 512
			switch {
			case l.path == "spec.dataVolumeTemplates":
				n = 64
			case strings.Contains(l.element, "]}"):
				n = 30
			}
			used, response := allocated(t, hooks[judged.hooks[i%len(judged.hooks)]], reviewOf(judged.name, l.many(n)))
			if used > worst {
				worst, at = used, l.path
			}
			if used > most {
				t.Errorf("%s: %s: %d MiB for %d elements", judged.name, l.path, used>>20, n)
			}
			if r := response.Result; r != nil && (r.Code != http.StatusUnprocessableEntity || strings.Contains(r.Message, "elements, at most")) {
				t.Errorf("%s: %s: %d elements: %d %.200s", judged.name, l.path, n, r.Code, r.Message)
			}
		}
		t.Logf("%s: most is allocated for %s: %d KiB", judged.name, at, worst>>10)
	}
}

// nested are lists of lists with as many parts as are allowed, each of them wrong.
var nested = map[string][]list{
	"VirtualMachine": {
		{"ports", `{"spec":{"template":{"spec":{"domain":{"devices":{"interfaces":[%s]}}}}}}`, `{"ports":` + several("{}", 500) + `}`},
		{"matchExpressions", `{"spec":{"template":{"spec":{"affinity":{"nodeAffinity":{"preferredDuringSchedulingIgnoredDuringExecution":[%s]}}}}}}`,
			`{"preference":{"matchExpressions":` + several("{}", 500) + `}}`},
		{"users", `{"spec":{"template":{"spec":{"accessCredentials":[%s]}}}}`, `{"sshPublicKey":{"propagationMethod":{"qemuGuestAgent":{"users":` +
			several(`""`, 500) + `}}}}`},
	},
	"VirtualMachineInstance": {
		{"ports", `{"spec":{"domain":{"devices":{"interfaces":[%s]}}}}`, `{"ports":` + several("{}", 500) + `}`},
		{"tags", `{"spec":{"topologySpreadConstraints":[%s]}}`, `{"labelSelector":{"matchExpressions":` + several(`{}`, 500) + `}}`},
	},
}

func several(element string, n int) string {
	return "[" + strings.TrimSuffix(strings.Repeat(element+",", n), ",") + "]"
}

func TestParts(t *testing.T) {
	lists := func(n int) string { return several(several(`""`, 512), n) }
	templates := func(n int) string { return several("{}", n) }
	for _, test := range []struct {
		name, why, object, field string
	}{
		{"nothing", "a deletion has no object", "", "-"},
		{"lists within lists", "each is short, all together are not", `{"spec":{"a":` + lists(40) + `}}`, "spec.a"},
		{"many lists", "none is the culprit", `{"spec":{"a":` + lists(20) + `,"b":` + lists(20) + `}}`, "spec"},
		{"as many as are allowed", "", `{"spec":{"a":` + lists(31) + `}}`, "-"},
		{"64 data volumes", "each is a disk", `{"spec":{"dataVolumeTemplates":` + templates(64) + `}}`, "-"},
		{"65 data volumes", "", `{"spec":{"dataVolumeTemplates":` + templates(65) + `}}`, "spec.dataVolumeTemplates"},
		{"65, spelled otherwise", "encoding/json takes it for the same field", `{"spec":{"DATAVOLUMETEMPLATES":` + templates(65) + `}}`, "spec.DATAVOLUMETEMPLATES"},
		{"managed fields", "they grow with the object and are never decoded",
			`{"metadata":{"managedFields":[{"fieldsV1":{"a":{` + strings.TrimSuffix(strings.Repeat(`"x":{},`, 600), ",") + `}}}]}}`, "-"},
		{"quantity", "its power of ten takes hours", `{"spec":{"template":{"spec":{"domain":{"memory":{"guest":"1e-1000000000"}}}}}}`,
			"spec.template.spec.domain.memory.guest"},
		{"deep", "no field of the API is", `{"spec":` + strings.Repeat(`{"a":`, 70) + "1" + strings.Repeat("}", 70) + `}`, "spec" + strings.Repeat(".a", 64)},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := "-"
			if err := validate.Counts([]byte(test.object)); err != nil {
				got = err.Field
			}
			if got != test.field {
				t.Errorf("%s: refused at '%s', want '%s'", test.why, got, test.field)
			}
		})
	}
}

// An object that is older than the bounds can be made smaller, and goes whatever its size.
func TestObjectsFromBeforeTheBounds(t *testing.T) {
	c := newCluster(t, catalog)
	old := strings.Replace(sparse, "instancetype:", "dataVolumeTemplates: ["+strings.TrimSuffix(strings.Repeat("{metadata: {name: d}}, ", 100), ", ")+
		"]\n  instancetype:", 1)
	if got := ask(t, c.Hooks()[MutateVM], update(t, old, sparse)); !got.Allowed {
		t.Errorf("made smaller: %+v", got.Result)
	}
	if got := ask(t, c.Hooks()[MutateVM], update(t, old, strings.Replace(old, "Always", "Halted", 1))); got.Allowed ||
		got.Result.Details.Causes[0].Field != "spec.dataVolumeTemplates" {
		t.Errorf("changed otherwise: %+v", got.Result)
	}
	deleted := strings.Replace(old, "name: web,", "name: web, deletionTimestamp: '2026-01-01T00:00:00Z',", 1)
	for _, path := range []string{MutateVM, ValidateVM} {
		if got := ask(t, c.Hooks()[path], update(t, deleted, deleted)); !got.Allowed {
			t.Errorf("%s: on its way out: %+v", path, got.Result)
		}
	}
	// Caches keep it until its last finalizer is gone, so that its spec is bounded, and a create is one whatever its author wrote.
	changed := strings.Replace(deleted, "Always", "Halted", 1)
	for why, request := range map[string]*admissionv1.AdmissionRequest{
		"a changed spec on its way out": update(t, deleted, changed), "created on its way out": create(t, deleted),
	} {
		for _, path := range []string{MutateVM, ValidateVM} {
			if got := ask(t, c.Hooks()[path], request); got.Allowed || got.Result.Details.Causes[0].Field != "spec.dataVolumeTemplates" {
				t.Errorf("%s: %s: %+v", path, why, got.Result)
			}
		}
	}
}
