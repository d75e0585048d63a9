package cataloginstall

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/api/v1alpha1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestWantedObjects: what is applied says what it belongs to, whatever its author wrote, and has nothing that only a cluster writes.
func TestWantedObjects(t *testing.T) {
	hostile := strings.Replace(sized("small", "1Gi", "kilnvm.io/catalog: other", "a: b"), "  name: small\n",
		"  name: small\n  resourceVersion: '1'\n  uid: x\n"+
			"  finalizers: [example.org/never]\n  annotations: {kilnvm.io/catalog-version: 9.9.9, kilnvm.io/catalog-source: 'oci://evil', c: d}\n", 1)
	files := first
	files.Source = ""
	for _, i := range []Installation{first, files} {
		object := i.wantedObject(catalogOf(t, hostile).AuthoredObject(0))
		annotations := map[string]string{v1alpha1.AnnotationCatalogVersion: "1.0.0@sha256:1", "c": "d"}
		if i.Source != "" {
			annotations[v1alpha1.AnnotationCatalogSource] = i.Source
		}
		untyped := map[string]any{}
		for key, value := range annotations {
			untyped[key] = value
		}
		metadata := map[string]any{"name": "small", "labels": map[string]any{v1alpha1.LabelCatalog: "general", "a": "b"}, "annotations": untyped}
		if diff := cmp.Diff(metadata, object.Object["metadata"]); diff != "" {
			t.Errorf("-want +got\n%s", diff)
		}
	}
	if got := (Installation{Digest: "sha256:3"}).versionAnnotation(); got != "sha256:3" {
		t.Errorf("a catalog of files has version '%s'", got)
	}
}

// TestObsoleteObject: what marks an object repeats all that was applied before, as server-side apply would remove the rest, and nothing of others.
func TestObsoleteObject(t *testing.T) {
	s := installed(first, catalogOf(t, sized("small", "1Gi", "a: b")), func(u *unstructured.Unstructured) {
		u.SetLabels(withEntry(u.GetLabels(), "theirs", "x"))
		u.SetAnnotations(withEntry(u.GetAnnotations(), "theirs", "x"))
	})
	live := s.Objects[keyFor("small")]
	object := markedObsolete(live)
	labels := map[string]string{v1alpha1.LabelCatalog: "general", "a": "b", v1alpha1.LabelLifecycle: "obsolete"}
	annotations := map[string]string{v1alpha1.AnnotationCatalogVersion: "1.0.0@sha256:1", v1alpha1.AnnotationCatalogSource: first.Source}
	if diff := cmp.Diff([]any{labels, annotations, live.Object["spec"], "7"}, []any{object.GetLabels(), object.GetAnnotations(), object.Object["spec"],
		object.GetResourceVersion()}); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestDigestOfCatalog(t *testing.T) {
	digest := func(documents ...string) string {
		t.Helper()
		d, err := catalogOf(t, documents...).Digest()
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	one := digest(sized("a", "1Gi"), sized("b", "1Gi"))
	if other := digest(sized("b", "1Gi")+"# a comment\n", sized("a", "1Gi")); one != other {
		t.Error("the order or a comment changes the digest")
	}
	for _, other := range []string{digest(sized("a", "1Gi")), digest(sized("a", "1Gi"), sized("b", "2Gi")),
		digest(sized("a", "1Gi"), sized("b", "1Gi", "a: b"))} {
		if one == other {
			t.Error("two catalogs have one digest")
		}
	}
}
