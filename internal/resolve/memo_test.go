package resolve

import (
	"testing"

	"github.com/kilnvm/kiln/internal/objects"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// versioned sets the UID and resourceVersion that an API server would.
func versioned(object *unstructured.Unstructured, version string) *unstructured.Unstructured {
	object = object.DeepCopy()
	object.SetUID("u-" + object.GetUID())
	object.SetResourceVersion(version)
	return object
}

// TestMemo: a Resolver with a memo returns what one without returns, also after objects were edited, deleted or created again.
func TestMemo(t *testing.T) {
	memo := NewMemo()
	small, big := versioned(size("s", "1Gi", ""), "1"), versioned(size("s", "2Gi", ""), "2")
	revision := versioned(stored(t, small), "3")
	forged := versioned(revision, "4")
	if err := unstructured.SetNestedField(forged.Object, "9Gi", "data", "spec", "memory", "guest"); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		name    string
		objects []*unstructured.Unstructured
	}{
		{"first", []*unstructured.Unstructured{small}},
		{"again", []*unstructured.Unstructured{small}},
		{"stored", []*unstructured.Unstructured{small, revision}},
		{"stored, again", []*unstructured.Unstructured{small, revision}},
		{"edited", []*unstructured.Unstructured{big, revision}},
		{"revision gone", []*unstructured.Unstructured{small}},
		{"revision of other content", []*unstructured.Unstructured{small, forged}},
		{"size gone", nil},
		{"as at first", []*unstructured.Unstructured{small, revision}},
	} {
		t.Run(step.name, func(t *testing.T) {
			files := objects.New(scheme(t), step.objects...)
			with, errWith := Resolver{Cached: files, Memo: memo}.VM(t.Context(), vm(), nil)
			without, errWithout := Resolver{Cached: files}.VM(t.Context(), vm(), nil)
			if (errWith == nil) != (errWithout == nil) || !with.Pins.Equal(without.Pins) || len(with.Drafts) != len(without.Drafts) {
				t.Errorf("with a memo %+v %v, without %+v %v", with, errWith, without, errWithout)
			}
		})
	}
	if n := memo.entries.Len(); n != 3 {
		t.Errorf("%d entries, want 3: two versions of the instancetype, one of the revision; what does not verify is read again", n)
	}
}
