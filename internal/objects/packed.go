package objects

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Packed is a client.Reader of objects that are kept as JSON. A decoded object takes ten times as much memory, and a dump has tens of thousands of revisions
// and hardware records, of which a run reads one at a time. Reads are safe for concurrent use once all objects are added.
type Packed struct {
	scheme  *runtime.Scheme
	objects map[schema.GroupKind]map[client.ObjectKey][]byte
}

// NewPacked returns a reader without objects. The scheme must have every kind that is read as a typed object.
func NewPacked(scheme *runtime.Scheme) *Packed {
	return &Packed{scheme: scheme, objects: map[schema.GroupKind]map[client.ObjectKey][]byte{}}
}

// Add adds an object. It replaces an object of the same kind, namespace and name.
func (p *Packed) Add(object *unstructured.Unstructured) error {
	raw, err := json.Marshal(object.Object)
	if err != nil {
		return fmt.Errorf("%s '%s': %w", object.GetKind(), object.GetName(), err)
	}
	kind := object.GroupVersionKind().GroupKind()
	if p.objects[kind] == nil {
		p.objects[kind] = map[client.ObjectKey][]byte{}
	}
	p.objects[kind][client.ObjectKeyFromObject(object)] = raw
	return nil
}

// Get decodes an object into the given one. If it does not exist, the error is NotFound, as from a cluster.
func (p *Packed) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	raw, err := findObject(p.scheme, p.objects, key, into)
	if err != nil {
		return err
	}
	return unpackTo(raw, into)
}

// List fills a list with the objects of its kind, in no particular order. It applies only the namespace and the selector of labels.
func (p *Packed) List(_ context.Context, list client.ObjectList, options ...client.ListOption) error {
	return fillList(p.scheme, p.objects, unpackTo, list, options)
}

// unpackTo decodes JSON. Whole numbers of an untyped object stay whole.
func unpackTo(raw []byte, into any) error {
	if untyped, ok := into.(*unstructured.Unstructured); ok {
		untyped.Object = nil
		return utiljson.Unmarshal(raw, &untyped.Object)
	}
	reflect.ValueOf(into).Elem().SetZero()
	return json.Unmarshal(raw, into)
}
