package admission

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/internal/resolve"
	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// TestAuditAnnotations: an allowed and a refused request carry audit annotations, bounded, and with keys that the API server accepts.
func TestAuditAnnotations(t *testing.T) {
	many := map[string]string{}
	for i := range 100 {
		many[fmt.Sprintf("key-%03d", i)] = strings.Repeat("ü", maxAuditValue/2)
	}
	for _, test := range []struct {
		why        string
		all, kept  map[string]string
		keys       int
		refused    bool
		droppedKey string
	}{
		{why: "none", all: nil, kept: nil},
		{why: "an allowed request", all: map[string]string{"a": "1"}, kept: map[string]string{"a": "1"}},
		{why: "a refused request", all: map[string]string{"a": "1"}, kept: map[string]string{"a": "1"}, refused: true},
		{why: "keys that are no names", all: map[string]string{"a b": "1", "ü": "2", strings.Repeat("k", 64): "3", "ok": "4", "name/key": "5"},
			kept: map[string]string{"ok": "4", "name_key": "5", auditDropped: "3"}},
		{why: "a value that is too long", all: map[string]string{"a": strings.Repeat("ü", maxAuditValue), "b": "1"},
			kept: map[string]string{"b": "1", auditDropped: "1"}},
		{why: "more than fits", all: many, keys: 4, droppedKey: "97"},
	} {
		t.Run(test.why, func(t *testing.T) {
			handle := func(context.Context, *admissionv1.AdmissionRequest) (answer, error) {
				if test.refused {
					return answer{audit: test.all}, &resolve.Refusal{Errors: field.ErrorList{field.Required(field.NewPath("spec"), "")}}
				}
				return answer{audit: test.all}, nil
			}
			response := ask(t, Hook{handle: handle, capacity: newCapacity()}, create(t, sparse))
			if response.Allowed == test.refused {
				t.Fatalf("%+v", response)
			}
			got := response.AuditAnnotations
			if test.keys == 0 {
				if diff := cmp.Diff(test.kept, got); diff != "" {
					t.Error(diff)
				}
				return
			}
			if len(got) != test.keys || got[auditDropped] != test.droppedKey {
				t.Errorf("%d keys, dropped '%s'", len(got), got[auditDropped])
			}
		})
	}
}
