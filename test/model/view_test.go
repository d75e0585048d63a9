package model

import (
	"fmt"
	"testing"

	"github.com/kilnvm/kiln/internal/objects"
	"github.com/kilnvm/kiln/internal/revision"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// kinds are those that informers follow.
var kinds = []schema.GroupVersionKind{
	{Group: "apps", Version: "v1", Kind: "ControllerRevision"},
	{Group: "kubevirt.io", Version: "v1", Kind: "VirtualMachine"},
	{Group: "kubevirt.io", Version: "v1", Kind: "VirtualMachineInstance"},
	{Group: "instancetype.kubevirt.io", Version: "v1beta1", Kind: "VirtualMachineInstancetype"},
	{Group: "instancetype.kubevirt.io", Version: "v1beta1", Kind: "VirtualMachinePreference"},
	{Group: "kubevirt.io", Version: "v1", Kind: "VirtualMachineInstancePreset"},
}

// view is a cache that is refreshed kind by kind, when the model says so.
type view struct {
	objects.Reader
	namespace string
	objects   map[schema.GroupVersionKind][]*unstructured.Unstructured
}

func newView(namespace string) *view {
	return &view{namespace: namespace, objects: map[schema.GroupVersionKind][]*unstructured.Unstructured{}}
}

func (v *view) refresh(t *testing.T, kinds ...schema.GroupVersionKind) {
	t.Helper()
	for _, kind := range kinds {
		v.objects[kind] = list(t, v.namespace, kind)
	}
	var all []*unstructured.Unstructured
	for _, objects := range v.objects {
		all = append(all, objects...)
	}
	v.Reader = objects.New(server.Scheme(), all...)
}

// list reads all objects of a kind.
func list(t *testing.T, namespace string, kind schema.GroupVersionKind) []*unstructured.Unstructured {
	t.Helper()
	var found unstructured.UnstructuredList
	found.SetGroupVersionKind(kind)
	options := []client.ListOption{client.InNamespace(namespace)}
	if kind.Kind == "ControllerRevision" {
		options = append(options, client.HasLabels{revision.Selector})
	}
	if err := server.List(t.Context(), &found, options...); err != nil {
		t.Fatal(err)
	}
	var objects []*unstructured.Unstructured
	for i := range found.Items {
		objects = append(objects, &found.Items[i])
	}
	return objects
}

// read fills a typed object.
func read(t *testing.T, from *unstructured.Unstructured, into any) {
	t.Helper()
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(from.Object, into); err != nil {
		t.Fatal(fmt.Errorf("%s '%s': %w", from.GetKind(), from.GetName(), err))
	}
}
