package cluster

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestUnestablished: a definition counts when its condition is true. A new one has no status, or one whose conditions are null.
func TestUnestablished(t *testing.T) {
	definition := func(name string, status any) unstructured.Unstructured {
		return unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": name}, "status": status}}
	}
	conditions := func(status string) any {
		return map[string]any{"conditions": []any{
			map[string]any{"type": "NamesAccepted", "status": "True"}, map[string]any{"type": "Established", "status": status},
		}}
	}
	definitions := []unstructured.Unstructured{
		definition("new", nil), definition("null", map[string]any{"conditions": nil}),
		definition("refused", conditions("False")), definition("served", conditions("True")),
	}
	for _, tt := range []struct{ names, want []string }{
		{nil, []string{"new", "null", "refused"}},
		{[]string{"served"}, nil},
		{[]string{"null", "served"}, []string{"null"}},
		{[]string{"served", "missing"}, []string{"missing"}},
	} {
		if diff := cmp.Diff(tt.want, unestablished(definitions, tt.names)); diff != "" {
			t.Errorf("of %v (-want +got):\n%s", tt.names, diff)
		}
	}
}
