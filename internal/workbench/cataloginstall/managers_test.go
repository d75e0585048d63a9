package cataloginstall

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/api/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestSoleManager: the catalog's manager gets what others own of labels, annotations and the spec, and the rest stays theirs.
func TestSoleManager(t *testing.T) {
	entry := func(manager string, operation metav1.ManagedFieldsOperationType, fields string) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{Manager: manager, Operation: operation, FieldsV1: metav1.NewFieldsV1(fields)}
	}
	own := entry(FieldManager, metav1.ManagedFieldsOperationApply,
		`{"f:metadata":{"f:labels":{"f:a":{}}},"f:spec":{"f:cpu":{"f:guest":{}},"f:gone":{"f:x":{}}}}`)
	finalizer := entry("other", metav1.ManagedFieldsOperationUpdate, `{"f:metadata":{"f:finalizers":{}}}`)
	for _, test := range []struct {
		why           string
		before        []metav1.ManagedFieldsEntry
		fields, other string
	}{
		{"nobody else", []metav1.ManagedFieldsEntry{own, finalizer}, "", ""},
		{"another one beside it, with a part that is no catalog's", []metav1.ManagedFieldsEntry{own,
			entry("kubectl", metav1.ManagedFieldsOperationApply,
				`{"f:metadata":{"f:finalizers":{},"f:labels":{".":{},"f:b":{}}},"f:spec":{"f:cpu":{},"f:gone":{"f:y":{}}}}`)},
			`{"f:metadata":{"f:labels":{".":{},"f:a":{},"f:b":{}}},"f:spec":{"f:cpu":{".":{},"f:guest":{}},"f:gone":{"f:x":{},"f:y":{}}}}`,
			`{"f:metadata":{"f:finalizers":{}}}`},
		{"an object that it does not own yet", []metav1.ManagedFieldsEntry{entry("hand", metav1.ManagedFieldsOperationUpdate, `{"f:spec":{"f:cpu":{}}}`)},
			`{"f:spec":{"f:cpu":{}}}`, ""},
	} {
		after, err := soleManager(test.before)
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]string{}
		for _, entry := range after {
			got[entry.Manager] = string(entry.FieldsV1.GetRawBytes())
		}
		if test.fields == "" {
			if after != nil {
				t.Errorf("%s: %v", test.why, got)
			}
			continue
		}
		var fields, want any
		if json.Unmarshal([]byte(got[FieldManager]), &fields) != nil || json.Unmarshal([]byte(test.fields), &want) != nil || !cmp.Equal(fields, want) {
			t.Errorf("%s: %s, want %s", test.why, got[FieldManager], test.fields)
		}
		if got["kubectl"]+got["hand"] != test.other {
			t.Errorf("%s: left is %s, want %s", test.why, got["kubectl"]+got["hand"], test.other)
		}
	}
}

// TestTakenOver: what existed before its catalog is released with the catalog, also while VMs use it, and only if the catalog's manager says so.
func TestTakenOver(t *testing.T) {
	small := catalogOf(t, sized("small", "1Gi"))
	forced := second
	forced.Force = true
	before := State{Namespace: "shop", Objects: installed(first, small, foreign("kubectl-create")).Objects}
	p := forced.Plan(small, before)
	if diff := cmp.Diff([]string{"update small (taken over)"}, planLines(p)); diff != "" {
		t.Fatal(diff)
	}
	taken := func(u *unstructured.Unstructured) {
		u.SetAnnotations(withEntry(u.GetAnnotations(), v1alpha1.AnnotationCatalogTakenOver, "true"))
	}
	if taken := p.Actions[0].object.GetAnnotations()[v1alpha1.AnnotationCatalogTakenOver]; taken != "true" {
		t.Errorf("what is applied says '%s'", taken)
	}
	if got := planLines(second.PlanRemoval(installed(second, small, taken))); got[0] != "delete small" {
		t.Errorf("an annotation of another hand: %q", got)
	}
	owning := func(u *unstructured.Unstructured) {
		taken(u)
		u.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: FieldManager, Operation: metav1.ManagedFieldsOperationApply,
			FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:labels":{"f:kilnvm.io/catalog":{}},"f:annotations":{"f:kilnvm.io/catalog-taken-over":{},` +
				`"f:kilnvm.io/catalog-version":{},"f:kilnvm.io/catalog-source":{}}},"f:spec":{}}`)}})
	}
	state := installed(second, small, owning)
	if diff := cmp.Diff([]string{"unchanged small"}, planLines(second.Plan(small, state))); diff != "" {
		t.Errorf("the next run (-want +got)\n%s", diff)
	}
	removal := second.PlanRemoval(state)
	if diff := cmp.Diff([]string{"release small (existed before the catalog)"}, planLines(removal)); diff != "" {
		t.Errorf("removal (-want +got)\n%s", diff)
	}
	if object := removal.Actions[0].object; len(object.GetLabels())+len(object.GetAnnotations()) > 0 || object.Object["spec"] == nil {
		t.Errorf("released: %v", object.Object)
	}
}
