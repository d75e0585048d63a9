package resolve

import (
	"context"
	"testing"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/revision"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func scheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{appsv1.AddToScheme, v1.AddToScheme} {
		if err := add(s); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// size returns a live instancetype: cluster-wide, or of the namespace if one is given.
func size(name, memory, namespace string) *unstructured.Unstructured {
	kind := "VirtualMachineClusterInstancetype"
	metadata := map[string]any{"name": name, "uid": "u-" + name}
	if namespace != "" {
		kind, metadata["namespace"] = "VirtualMachineInstancetype", namespace
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "instancetype.kubevirt.io/v1beta1", "kind": kind, "metadata": metadata,
		"spec": map[string]any{"cpu": map[string]any{"guest": int64(1)}, "memory": map[string]any{"guest": memory}, "ofNewerAPI": "kept"},
	}}
}

// stored returns the revision of a live object, as the cache holds it.
func stored(t *testing.T, object *unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	draft, err := revision.NewDraft(namespace, object)
	if err != nil {
		t.Fatal(err)
	}
	return untyped(t, draft.Object())
}

func untyped(t *testing.T, r *appsv1.ControllerRevision) *unstructured.Unstructured {
	t.Helper()
	r.TypeMeta = metav1.TypeMeta{APIVersion: "apps/v1", Kind: "ControllerRevision"}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(r)
	if err != nil {
		t.Fatal(err)
	}
	return &unstructured.Unstructured{Object: content}
}

// counted counts the GET requests that reach the API server.
type counted struct {
	client.Reader
	requests int
}

func (c *counted) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	c.requests++
	return c.Reader.Get(ctx, key, object, options...)
}

// vm returns a VM with instancetype 's', changed by changes.
func vm(changes ...func(*v1.VirtualMachine)) *v1.VirtualMachine {
	vm := &v1.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: namespace}}
	vm.Spec.Instancetype = &v1.InstancetypeMatcher{Name: "s"}
	vm.Spec.Template = &v1.VirtualMachineInstanceTemplateSpec{}
	for _, change := range changes {
		change(vm)
	}
	return vm
}

func annotated(text string) func(*v1.VirtualMachine) {
	return func(vm *v1.VirtualMachine) { vm.Annotations = map[string]string{v1alpha1.AnnotationPins: text} }
}

func pinned(name string) func(*v1.VirtualMachine) {
	return annotated(`{"instancetype":"` + name + `"}`)
}

func matcher(m v1.InstancetypeMatcher) func(*v1.VirtualMachine) {
	return func(vm *v1.VirtualMachine) { vm.Spec.Instancetype = &m }
}
