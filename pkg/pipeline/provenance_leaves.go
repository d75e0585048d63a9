package pipeline

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"github.com/kilnvm/kiln/api/v1alpha1"
	v1 "kubevirt.io/api/core/v1"
)

// leaf is a field of an object that is set and has no fields below it.
type leaf struct {
	// path for people, with indices; key is the same leaf before and after a step, with the names of list elements.
	path, key string
	value     any
}

// text is the value for comparisons.
func (l leaf) text() string {
	raw, err := json.Marshal(l.value)
	if err != nil {
		return fmt.Sprint(l.value) // no value of the API fails to marshal
	}
	return string(raw)
}

// guestLeaves are those of the annotations and the spec of a guest. Annotations that Kiln itself reads are no hardware.
func guestLeaves(vmi *v1.VirtualMachineInstance) []leaf {
	annotations := map[string]string{}
	for key, value := range vmi.Annotations {
		// The generation of its VM is the controller's note on the guest, like Kiln's own: it is no part of what boots.
		if !strings.HasPrefix(key, v1alpha1.Prefix) && key != v1.VirtualMachineGenerationAnnotation {
			annotations[key] = value
		}
	}
	var found leaves
	found.walk(leaf{path: "metadata.annotations", key: "metadata.annotations"}, reflect.ValueOf(annotations))
	found.walk(leaf{path: "spec", key: "spec"}, reflect.ValueOf(vmi.Spec))
	return found
}

// leaves are in the order of the type's fields; those of maps in that of their keys.
type leaves []leaf

// walk adds the leaves below a value. It goes by Go types, not by JSON: that has 'devices: {}' where nobody set anything.
func (l *leaves) walk(at leaf, v reflect.Value) {
	switch {
	case v.Kind() == reflect.Pointer:
		if !v.IsNil() {
			l.pointed(at, v.Elem())
		}
	case whole(v.Type()):
		if !v.IsZero() {
			l.add(at, v)
		}
	case v.Kind() == reflect.Struct:
		for _, f := range fieldsOf(v.Type()) {
			part := v.Field(f.index)
			if f.name == "" && part.Kind() == reflect.Pointer {
				part = part.Elem()
			}
			if part.IsValid() {
				l.walk(at.field(f.name), part)
			}
		}
	case v.Kind() == reflect.Slice:
		seen := map[string]int{}
		for i := range v.Len() {
			name := elementName(v.Index(i), i)
			seen[name]++
			element := leaf{path: at.path + "[" + strconv.Itoa(i) + "]", key: fmt.Sprintf("%s[%s#%d]", at.key, name, seen[name])}
			l.pointed(element, v.Index(i))
		}
	case v.Kind() == reflect.Map:
		for _, key := range sortedKeys(v, v) {
			l.pointed(leaf{path: at.path + "[" + key.String() + "]", key: at.key + "[" + key.String() + "]"}, v.MapIndex(key))
		}
	case !v.IsZero():
		l.add(at, v)
	}
}

// pointed is what a pointer, list or map holds: a zero there is a value, and a struct without fields set an empty object.
func (l *leaves) pointed(at leaf, v reflect.Value) {
	before := len(*l)
	if v.Kind() == reflect.Struct && !whole(v.Type()) {
		l.walk(at, v)
		if len(*l) == before {
			*l = append(*l, leaf{at.path, at.key, struct{}{}})
		}
		return
	}
	l.add(at, v)
}

func (l *leaves) add(at leaf, v reflect.Value) {
	*l = append(*l, leaf{at.path, at.key, v.Interface()})
}

// field is below a struct; an inlined one has no name.
func (at leaf) field(name string) leaf {
	if name == "" {
		return at
	}
	return leaf{path: strings.TrimPrefix(at.path+"."+name, "."), key: at.key + "." + name}
}

// whole tells of types that write their own JSON, such as quantities, and of bytes.
func whole(t reflect.Type) bool {
	return t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8 || t.Implements(marshaler) || reflect.PointerTo(t).Implements(marshaler)
}

// elementName tells an element of a list from the others, wherever it stands: steps may put one before it. Without a name
// it is its index.
func elementName(v reflect.Value, index int) string {
	if v.Kind() == reflect.Struct {
		if name := v.FieldByName("Name"); name.IsValid() && name.Kind() == reflect.String && name.Len() > 0 {
			return name.String()
		}
	}
	return strconv.Itoa(index)
}
