package objects

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func secret(namespace, name, from string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"namespace": namespace, "name": name}, "stringData": map[string]any{"from": from},
	}}
}

func TestReader(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	first := New(scheme, secret("team", "a", "replaced"), secret("team", "a", "first"), secret("other", "a", "first"))
	both := Layers{first, New(scheme, secret("team", "a", "second"), secret("team", "b", "second"))}
	for _, test := range []struct {
		why, name, from string
		reader          client.Reader
	}{
		{"of two with one name the later counts", "a", "first", first},
		{"no object of that name", "b", "", first},
		{"the first layer counts", "a", "first", both},
		{"the second layer has what the first lacks", "b", "second", both},
		{"neither layer has it", "c", "", both},
	} {
		var typed corev1.Secret
		err := test.reader.Get(t.Context(), client.ObjectKey{Namespace: "team", Name: test.name}, &typed)
		if typed.StringData["from"] != test.from || apierrors.IsNotFound(err) != (test.from == "") {
			t.Errorf("%s: '%s' is from '%s', %v", test.why, test.name, typed.StringData["from"], err)
		}
	}
	var list corev1.SecretList
	if err := both.List(t.Context(), &list, client.InNamespace("team")); err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, item := range list.Items {
		found = append(found, item.Name+" "+item.StringData["from"])
	}
	if slices.Sort(found); !slices.Equal(found, []string{"a first", "b second"}) {
		t.Errorf("the layers list %q", found)
	}
	marked := secret("team", "marked", "")
	marked.SetLabels(map[string]string{"mark": ""})
	if err := New(scheme, marked, secret("team", "a", "")).List(t.Context(), &list, client.HasLabels{"mark"}); err != nil || len(list.Items) != 3 {
		t.Errorf("the list has %d items, %v; want the two that it had, and the one with the label", len(list.Items), err)
	}
	untyped := &unstructured.UnstructuredList{} // as profiles and the catalog are read
	untyped.SetAPIVersion("v1")
	untyped.SetKind("SecretList")
	if err := both.List(t.Context(), untyped, client.InNamespace("team")); err != nil || len(untyped.Items) != 2 {
		t.Errorf("the layers list %d untyped objects, %v; want two", len(untyped.Items), err)
	}
	metadata := &metav1.PartialObjectMetadata{} // as namespaces are read
	metadata.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	if err := both.Get(t.Context(), client.ObjectKey{Namespace: "team", Name: "b"}, metadata); err != nil || metadata.Name != "b" {
		t.Errorf("the metadata of '%s', %v", metadata.Name, err)
	}
}

// What a caller changes must not change what the next caller reads.
func TestReaderGivesCopies(t *testing.T) {
	reader := New(runtime.NewScheme(), secret("team", "a", "kept"))
	for range 2 {
		read := secret("team", "a", "")
		if err := reader.Get(t.Context(), client.ObjectKeyFromObject(read), read); err != nil {
			t.Fatal(err)
		}
		if from, _, _ := unstructured.NestedString(read.Object, "stringData", "from"); from != "kept" {
			t.Errorf("read '%s'", from)
		}
		if err := unstructured.SetNestedField(read.Object, "changed", "stringData", "from"); err != nil {
			t.Fatal(err)
		}
	}
}
