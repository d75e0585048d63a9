// Package leaves walks API objects by their Go types and names their fields as in JSON.
package leaves

import (
	"cmp"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Leaf is a field of an object that is set and has no fields below it.
type Leaf struct {
	// Path has the form of field.Path, with the indices of elements. Key has their names instead, so that it stays the same when a step inserts elements into
	// a list.
	Path, Key string
	Value     any
}

// Text returns the value as JSON, for comparisons.
func (l Leaf) Text() string {
	raw, err := json.Marshal(l.Value)
	if err != nil {
		return fmt.Sprint(l.Value) // no value of the API fails to marshal
	}
	return string(raw)
}

// Below returns the leaf for a field of a struct. name is empty for an inlined struct.
func (l Leaf) Below(name string) Leaf {
	if name == "" {
		return l
	}
	return Leaf{Path: strings.TrimPrefix(l.Path+"."+name, "."), Key: l.Key + "." + name}
}

// Append appends the leaves of a value below a path, in the order of the type's fields. Elements of maps are in the order of their keys.
func Append(found []Leaf, path string, value any) []Leaf {
	l := leafList(found)
	l.appendLeaves(Leaf{Path: path, Key: path}, reflect.ValueOf(value))
	return l
}

type leafList []Leaf

// appendLeaves follows the Go types, not JSON: the JSON of a VMI has 'devices: {}' even if nothing is set, because the field is not a pointer.
func (l *leafList) appendLeaves(at Leaf, v reflect.Value) {
	switch {
	case v.Kind() == reflect.Pointer:
		if !v.IsNil() {
			l.appendElement(at, v.Elem())
		}
	case Whole(v.Type()):
		if !v.IsZero() {
			l.appendLeaf(at, v)
		}
	case v.Kind() == reflect.Struct:
		for _, f := range Fields(v.Type()) {
			part := v.Field(f.Index)
			if f.Name == "" && part.Kind() == reflect.Pointer {
				part = part.Elem()
			}
			if part.IsValid() {
				l.appendLeaves(at.Below(f.Name), part)
			}
		}
	case v.Kind() == reflect.Slice:
		seen := map[string]int{}
		for i := range v.Len() {
			name := elementName(v.Index(i), i)
			seen[name]++
			element := Leaf{Path: at.Path + "[" + strconv.Itoa(i) + "]", Key: fmt.Sprintf("%s[%s#%d]", at.Key, name, seen[name])}
			l.appendElement(element, v.Index(i))
		}
	case v.Kind() == reflect.Map:
		for _, key := range SortedKeys(v, v) {
			l.appendElement(Leaf{Path: at.Path + "[" + key.String() + "]", Key: at.Key + "[" + key.String() + "]"}, v.MapIndex(key))
		}
	case !v.IsZero():
		l.appendLeaf(at, v)
	}
}

// appendElement adds the leaves behind a pointer, or of an element of a list or map. A zero value counts as set, and a struct without set fields as an empty
// object.
func (l *leafList) appendElement(at Leaf, v reflect.Value) {
	before := len(*l)
	if v.Kind() == reflect.Struct && !Whole(v.Type()) {
		l.appendLeaves(at, v)
		if len(*l) == before {
			*l = append(*l, Leaf{at.Path, at.Key, struct{}{}})
		}
		return
	}
	l.appendLeaf(at, v)
}

func (l *leafList) appendLeaf(at Leaf, v reflect.Value) {
	*l = append(*l, Leaf{at.Path, at.Key, v.Interface()})
}

// elementName returns the field Name of an element, which most lists of the API have as their key, else the index of the element.
func elementName(v reflect.Value, index int) string {
	if v.Kind() == reflect.Struct {
		if name := v.FieldByName("Name"); name.IsValid() && name.Kind() == reflect.String && name.Len() > 0 {
			return name.String()
		}
	}
	return strconv.Itoa(index)
}

// Field is a field of a struct: its index among the Go fields, and its JSON key, which is empty for an inlined struct.
type Field struct {
	Index int
	Name  string
}

// Fields returns the fields of a struct that encoding/json reads and writes, in their order in the type. The caller must not change the
// list, which is kept: reflection allocates each field anew.
func Fields(t reflect.Type) []Field {
	if known, found := fieldsByType.Load(t); found {
		return known.([]Field)
	}
	var fields []Field
	for i := range t.NumField() {
		name, options, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		switch {
		case name == "-" || !t.Field(i).IsExported():
		case name == "" && (t.Field(i).Anonymous || strings.Contains(options, "inline")):
			fields = append(fields, Field{Index: i})
		default:
			fields = append(fields, Field{Index: i, Name: cmp.Or(name, t.Field(i).Name)})
		}
	}
	fieldsByType.Store(t, fields)
	return fields
}

// fieldsByType has the results of Fields by reflect.Type. The types of the API are few.
var fieldsByType sync.Map

// marshaler is the interface of types that write their own JSON.
var marshaler = reflect.TypeFor[json.Marshaler]()

// WritesItself reports whether a type writes its own JSON, such as quantities and times.
func WritesItself(t reflect.Type) bool {
	return t.Implements(marshaler) || reflect.PointerTo(t).Implements(marshaler)
}

// Whole reports whether JSON has one value for a type that may be a struct or a list in Go: bytes, which are base64 in JSON, and types that write their own
// JSON.
func Whole(t reflect.Type) bool {
	return t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8 || WritesItself(t)
}

// SortedKeys returns the keys of two maps in their order, each once.
func SortedKeys(a, b reflect.Value) []reflect.Value {
	keys := append(a.MapKeys(), b.MapKeys()...)
	slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
	return slices.CompactFunc(keys, func(a, b reflect.Value) bool { return a.String() == b.String() })
}
