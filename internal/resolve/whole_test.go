package resolve

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/internal/objects"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"kubevirt.io/api/instancetype/v1beta1"
)

// TestWhole: metadata of an instancetype is known while the object has the content of the revision, in the scope of its kind, and not otherwise.
func TestWhole(t *testing.T) {
	labelled := func(memory, scope string) *unstructured.Unstructured {
		object := size("s", memory, scope)
		object.SetLabels(map[string]string{"approved": "yes"})
		return object
	}
	typed := func(object *unstructured.Unstructured) *v1beta1.VirtualMachineInstancetype {
		into := &v1beta1.VirtualMachineInstancetype{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, into); err != nil {
			t.Fatal(err)
		}
		return into
	}
	pinned := func(object *unstructured.Unstructured) Resolution {
		one := vm()
		if object.GetNamespace() != "" {
			one.Spec.Instancetype.Kind = object.GetKind()
		}
		resolution, err := Resolver{Cached: objects.New(scheme(t), object)}.VM(t.Context(), one, nil)
		if err != nil || resolution.Set.Instancetype == nil {
			t.Fatalf("%+v, %v", resolution, err)
		}
		return resolution
	}
	gone := typed(size("s", "1Gi", ""))
	gone.ObjectMeta = metav1.ObjectMeta{Name: "s"}
	own := labelled("1Gi", namespace)
	for _, test := range []struct {
		why  string
		was  *unstructured.Unstructured
		now  []*unstructured.Unstructured
		want *v1beta1.VirtualMachineInstancetype
	}{
		{why: "the object is as it was pinned", was: labelled("1Gi", ""), now: []*unstructured.Unstructured{labelled("1Gi", "")}, want: typed(labelled("1Gi", ""))},
		{why: "labels came after the pin", was: size("s", "1Gi", ""), now: []*unstructured.Unstructured{labelled("1Gi", "")}, want: typed(labelled("1Gi", ""))},
		{why: "one of a namespace", was: own, now: []*unstructured.Unstructured{own}, want: typed(own)},
		{why: "the object was edited", was: labelled("1Gi", ""), now: []*unstructured.Unstructured{labelled("2Gi", "")}, want: gone},
		{why: "the object was deleted", was: labelled("1Gi", ""), want: gone},
		{why: "another namespace has one of the name", was: labelled("1Gi", ""), now: []*unstructured.Unstructured{labelled("1Gi", "other")}, want: gone},
	} {
		t.Run(test.why, func(t *testing.T) {
			resolution := pinned(test.was)
			whole, err := Resolver{Cached: objects.New(scheme(t), test.now...)}.CatalogObjects(t.Context(), namespace, resolution.Set)
			if err != nil || whole.Preference != nil {
				t.Fatalf("%+v, %v", whole, err)
			}
			if diff := cmp.Diff(test.want, whole.Instancetype); diff != "" {
				t.Error(diff)
			}
		})
	}
	none, err := Resolver{Cached: objects.New(scheme(t))}.CatalogObjects(t.Context(), namespace, Resolution{}.Set)
	if none.Instancetype != nil || err != nil {
		t.Errorf("a VM without instancetype has %v, %v", none, err)
	}
}
