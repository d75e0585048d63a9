package cluster

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestUnestablished: a definition counts when its condition is true. A new one has no conditions.
func TestUnestablished(t *testing.T) {
	definition := func(name string, established ...apiextensions.ConditionStatus) apiextensions.CustomResourceDefinition {
		d := apiextensions.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: name}}
		for _, status := range established {
			d.Status.Conditions = append(d.Status.Conditions,
				apiextensions.CustomResourceDefinitionCondition{Type: apiextensions.NamesAccepted, Status: apiextensions.ConditionTrue},
				apiextensions.CustomResourceDefinitionCondition{Type: apiextensions.Established, Status: status})
		}
		return d
	}
	definitions := []apiextensions.CustomResourceDefinition{
		definition("new"), definition("refused", apiextensions.ConditionFalse), definition("served", apiextensions.ConditionTrue),
	}
	for _, tt := range []struct{ names, want []string }{
		{nil, []string{"new", "refused"}},
		{[]string{"served"}, nil},
		{[]string{"new", "served"}, []string{"new"}},
		{[]string{"served", "missing"}, []string{"missing"}},
	} {
		if diff := cmp.Diff(tt.want, unestablished(definitions, tt.names)); diff != "" {
			t.Errorf("of %v (-want +got):\n%s", tt.names, diff)
		}
	}
}
