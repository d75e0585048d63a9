package resolve

import (
	"context"
	"fmt"
	"reflect"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// Files reads objects that came from files, so that the command line resolves as the webhook does.
type Files struct {
	scheme  *runtime.Scheme
	objects map[file]*unstructured.Unstructured
}

type file struct {
	schema.GroupKind
	client.ObjectKey
}

// NewFiles indexes objects. Of two with one kind, namespace and name the later wins. The scheme must know every kind
// that is going to be read typed.
func NewFiles(scheme *runtime.Scheme, objects ...*unstructured.Unstructured) Files {
	f := Files{scheme: scheme, objects: map[file]*unstructured.Unstructured{}}
	for _, object := range objects {
		f.objects[file{object.GroupVersionKind().GroupKind(), client.ObjectKeyFromObject(object)}] = object
	}
	return f
}

// Get copies an object into the given one. Not found is the API's own error.
func (f Files) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	kind, err := apiutil.GVKForObject(into, f.scheme)
	if err != nil {
		return err
	}
	object, found := f.objects[file{kind.GroupKind(), key}]
	if !found {
		return apierrors.NewNotFound(schema.GroupResource{Group: kind.Group, Resource: strings.ToLower(kind.Kind)}, key.Name)
	}
	return copyTo(object, into)
}

// List fills a typed list with the objects of its kind, of one namespace if the options name one.
func (f Files) List(_ context.Context, list client.ObjectList, options ...client.ListOption) error {
	kind, err := apiutil.GVKForObject(list, f.scheme)
	if err != nil {
		return err
	}
	var wanted client.ListOptions
	wanted.ApplyOptions(options)
	group := schema.GroupKind{Group: kind.Group, Kind: strings.TrimSuffix(kind.Kind, "List")}
	items, err := meta.GetItemsPtr(list)
	if err != nil {
		return err
	}
	slice := reflect.ValueOf(items).Elem()
	for at, object := range f.objects {
		if at.GroupKind != group || wanted.Namespace != "" && at.Namespace != wanted.Namespace {
			continue
		}
		item := reflect.New(slice.Type().Elem())
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, item.Interface()); err != nil {
			return fmt.Errorf("reading %s '%s': %w", at.Kind, at.Name, err)
		}
		slice.Set(reflect.Append(slice, item.Elem()))
	}
	return nil
}

func copyTo(object *unstructured.Unstructured, into client.Object) error {
	if untyped, ok := into.(*unstructured.Unstructured); ok {
		object.DeepCopyInto(untyped)
		return nil
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, into); err != nil {
		return fmt.Errorf("reading %s '%s': %w", object.GetKind(), object.GetName(), err)
	}
	return nil
}

// Guest is the VM or VMI of an untyped object, whichever it is; both nil for other kinds.
func Guest(object *unstructured.Unstructured) (*v1.VirtualMachine, *v1.VirtualMachineInstance, error) {
	kind := object.GroupVersionKind()
	switch {
	case kind.Group != v1.VirtualMachineGroupVersionKind.Group:
		return nil, nil, nil
	case kind.Kind == v1.VirtualMachineGroupVersionKind.Kind:
		vm := &v1.VirtualMachine{}
		return vm, nil, copyTo(object, vm)
	case kind.Kind == v1.VirtualMachineInstanceGroupVersionKind.Kind:
		vmi := &v1.VirtualMachineInstance{}
		return nil, vmi, copyTo(object, vmi)
	}
	return nil, nil, nil
}
