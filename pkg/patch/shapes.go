package patch

import (
	"bytes"
	"maps"
	"reflect"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/internal/leaves"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	clone "kubevirt.io/api/clone/v1beta1"
	v1 "kubevirt.io/api/core/v1"
	snapshot "kubevirt.io/api/snapshot/v1beta1"
)

// shape is what the patch writer must know about a type. It is computed once: reading struct tags for each request costs more than the comparison.
type shape struct {
	// equal compares types that write their own JSON (quantities, times) as a whole.
	equal func(old, now reflect.Value) bool
	// fields of a struct, in the order of the type.
	fields []fieldShape
	// element of a pointer, list or map.
	element *shape
}

// fieldShape is one field of a struct.
type fieldShape struct {
	leaves.Field
	is *shape
}

// inlinedShape returns the shape of an inlined struct, whose fields JSON has among the fields of its parent. The Go field may be a pointer to it.
func (f fieldShape) inlinedShape() *shape {
	if f.is.element != nil {
		return f.is.element
	}
	return f.is
}

// shapes has every type that can be reached from the objects that admission patches. It does not change after the start.
var shapes = shapesOf(reflect.TypeFor[v1.VirtualMachine](), reflect.TypeFor[v1.VirtualMachineInstance](),
	reflect.TypeFor[snapshot.VirtualMachineRestore](), reflect.TypeFor[clone.VirtualMachineClone](), reflect.TypeFor[corev1.Pod](),
	reflect.TypeFor[v1alpha1.GuestPolicyException]())

func shapesOf(roots ...reflect.Type) map[reflect.Type]*shape {
	known := map[reflect.Type]*shape{}
	for _, t := range roots {
		shapeOf(t, known)
	}
	return known
}

// shapeOf adds a type and all below it. A type is known before its fields are described: one that holds itself would have no end.
func shapeOf(t reflect.Type, known map[reflect.Type]*shape) *shape {
	if s := known[t]; s != nil {
		return s
	}
	s := &shape{}
	known[t] = s
	switch {
	case t == reflect.TypeFor[resource.Quantity]():
		s.equal = sameQuantity
	case t.Kind() != reflect.Pointer && leaves.WritesItself(t):
		s.equal = sameValue
	case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8:
		s.equal = func(old, now reflect.Value) bool { return bytes.Equal(old.Bytes(), now.Bytes()) }
	case t.Kind() == reflect.Struct:
		for _, f := range leaves.Fields(t) {
			s.fields = append(s.fields, fieldShape{f, shapeOf(t.Field(f.Index).Type, known)})
		}
	case t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice || t.Kind() == reflect.Map:
		s.element = shapeOf(t.Elem(), known)
	}
	return s
}

// sameValue compares as the API does: an absent list equals an empty one, and '1Gi' equals '1024Mi'.
func sameValue(old, now reflect.Value) bool {
	return equality.Semantic.DeepEqual(old.Interface(), now.Interface())
}

// sameShaped is sameValue for a value whose shape is known: a number or text is compared without the reflection of sameValue.
func sameShaped(is *shape, old, now reflect.Value) bool {
	switch {
	case is.equal != nil:
		return is.equal(old, now)
	case old.Kind() <= reflect.Complex128 || old.Kind() == reflect.String:
		return old.Equal(now)
	}
	return sameValue(old, now)
}

// sameQuantity is sameValue for quantities, the most common type that writes itself, without a copy of those that have an address.
func sameQuantity(old, now reflect.Value) bool {
	if !old.CanAddr() || !now.CanAddr() {
		return sameValue(old, now)
	}
	return old.Addr().Interface().(*resource.Quantity).Cmp(*now.Addr().Interface().(*resource.Quantity)) == 0
}

// sameMap reports whether the most common maps, labels and quantities, are equal. It is a short cut: false may also mean another type of map.
func sameMap(old, now reflect.Value) bool {
	switch was := old.Interface().(type) {
	case map[string]string:
		return maps.Equal(was, now.Interface().(map[string]string))
	case corev1.ResourceList:
		return maps.EqualFunc(was, now.Interface().(corev1.ResourceList), resource.Quantity.Equal)
	}
	return false
}
