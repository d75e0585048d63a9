package pipeline

import (
	"bytes"
	"cmp"
	"encoding/json"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	v1 "kubevirt.io/api/core/v1"
)

// shape is what the patch writer must know of a type, worked out once: reading struct tags for each request costs more
// than the comparison itself.
type shape struct {
	// equal compares types that write their own JSON (quantities, times) as a whole.
	equal  func(old, now reflect.Value) bool
	fields []fieldShape
}

type fieldShape struct {
	index int
	// name is the JSON key; empty for an inlined struct.
	name string
}

// shapes covers every type that can be reached from the objects that admission patches. It is complete at start and
// never written again.
var shapes = shapesOf(reflect.TypeFor[v1.VirtualMachine](), reflect.TypeFor[v1.VirtualMachineInstance]())

func shapesOf(roots ...reflect.Type) map[reflect.Type]*shape {
	known := map[reflect.Type]*shape{}
	for _, t := range roots {
		describe(t, known)
	}
	return known
}

var marshaler = reflect.TypeFor[json.Marshaler]()

func describe(t reflect.Type, known map[reflect.Type]*shape) {
	if known[t] != nil {
		return
	}
	s := &shape{}
	known[t] = s
	switch {
	case t.Kind() != reflect.Pointer && (t.Implements(marshaler) || reflect.PointerTo(t).Implements(marshaler)):
		s.equal = sameValue
	case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8:
		s.equal = func(old, now reflect.Value) bool { return bytes.Equal(old.Bytes(), now.Bytes()) }
	case t.Kind() == reflect.Struct:
		s.fields = fieldsOf(t)
		for _, f := range s.fields {
			describe(t.Field(f.index).Type, known)
		}
	case t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice || t.Kind() == reflect.Map:
		describe(t.Elem(), known)
	}
}

func fieldsOf(t reflect.Type) []fieldShape {
	var fields []fieldShape
	for i := range t.NumField() {
		name, options, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		switch {
		case name == "-" || !t.Field(i).IsExported():
		case name == "" && (t.Field(i).Anonymous || strings.Contains(options, "inline")):
			fields = append(fields, fieldShape{index: i})
		default:
			fields = append(fields, fieldShape{index: i, name: cmp.Or(name, t.Field(i).Name)})
		}
	}
	return fields
}

func sameValue(old, now reflect.Value) bool {
	return equality.Semantic.DeepEqual(old.Interface(), now.Interface())
}

// sortedKeys are the keys of both maps, each once.
func sortedKeys(old, now reflect.Value) []reflect.Value {
	keys := append(old.MapKeys(), now.MapKeys()...)
	slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
	return slices.CompactFunc(keys, func(a, b reflect.Value) bool { return a.String() == b.String() })
}
