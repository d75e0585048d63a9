// Package objects reads objects of files and of a cluster through the interface of a cluster client, and patches objects of a cluster.
package objects

import (
	"context"
	"fmt"
	"reflect"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// Reader is a client.Reader of objects in memory, such as the objects of files. It returns copies, which a caller may change. It is safe for concurrent use.
type Reader struct {
	// scheme has the kinds of typed objects.
	scheme *runtime.Scheme
	// objects are not changed after New. They are indexed by kind, because a review lists kinds of which there are few objects among thousands of others. The
	// version is not part of the index: a caller that reads v1beta1 finds an object that a file has as v1alpha1.
	objects map[schema.GroupKind]map[client.ObjectKey]*unstructured.Unstructured
}

// New returns a reader of objects. If two of them have the same kind, namespace and name, the reader has the later one. The scheme must have every kind that is
// read as a typed object.
func New(scheme *runtime.Scheme, objects ...*unstructured.Unstructured) Reader {
	r := Reader{scheme: scheme, objects: map[schema.GroupKind]map[client.ObjectKey]*unstructured.Unstructured{}}
	for _, object := range objects {
		kind := object.GroupVersionKind().GroupKind()
		if r.objects[kind] == nil {
			r.objects[kind] = map[client.ObjectKey]*unstructured.Unstructured{}
		}
		r.objects[kind][client.ObjectKeyFromObject(object)] = object
	}
	return r
}

// Get copies an object into the given one. If it does not exist, the error is NotFound, as from a cluster.
func (r Reader) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	object, err := findObject(r.scheme, r.objects, key, into)
	if err != nil {
		return err
	}
	return copyTo(object, into)
}

// List fills a list with the objects of its kind, in no particular order. It applies only the namespace and the selector of labels, and ignores other options.
func (r Reader) List(_ context.Context, list client.ObjectList, options ...client.ListOption) error {
	return fillList(r.scheme, r.objects, copyTo, list, options)
}

// fillList fills a list with the objects of its kind that the namespace and the selector of labels in the options match. decode writes an object into an item.
func fillList[T any](
	scheme *runtime.Scheme, kept map[schema.GroupKind]map[client.ObjectKey]T, decode func(T, any) error, list client.ObjectList, options []client.ListOption,
) error {
	kind, err := apiutil.GVKForObject(list, scheme)
	if err != nil {
		return err
	}
	var wanted client.ListOptions
	wanted.ApplyOptions(options)
	items, err := meta.GetItemsPtr(list)
	if err != nil {
		return err
	}
	slice := reflect.ValueOf(items).Elem()
	for at, object := range kept[schema.GroupKind{Group: kind.Group, Kind: strings.TrimSuffix(kind.Kind, "List")}] {
		if wanted.Namespace != "" && at.Namespace != wanted.Namespace {
			continue
		}
		item := reflect.New(slice.Type().Elem())
		if err := decode(object, item.Interface()); err != nil {
			return err
		}
		if named, ok := item.Interface().(client.Object); ok && wanted.LabelSelector != nil && !wanted.LabelSelector.Matches(labels.Set(named.GetLabels())) {
			continue
		}
		slice.Set(reflect.Append(slice, item.Elem()))
	}
	return nil
}

// findObject returns the object of a kind and name. If it does not exist, the error is NotFound, as from a cluster.
func findObject[T any](
	scheme *runtime.Scheme, kept map[schema.GroupKind]map[client.ObjectKey]T, key client.ObjectKey, into client.Object,
) (found T, err error) {
	kind, err := apiutil.GVKForObject(into, scheme)
	if err != nil {
		return found, err
	}
	found, exists := kept[kind.GroupKind()][key]
	if !exists {
		return found, apierrors.NewNotFound(schema.GroupResource{Group: kind.Group, Resource: strings.ToLower(kind.Kind)}, key.Name)
	}
	return found, nil
}

// copyTo converts an object to the type that the caller reads. Fields that the type lacks are dropped, as a typed client does.
func copyTo(object *unstructured.Unstructured, into any) error {
	if untyped, ok := into.(*unstructured.Unstructured); ok {
		object.DeepCopyInto(untyped)
		return nil
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, into); err != nil {
		return fmt.Errorf("reading %s '%s': %w", object.GetKind(), object.GetName(), err)
	}
	return nil
}
