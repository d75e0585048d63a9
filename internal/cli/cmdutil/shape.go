package cmdutil

import (
	"encoding/json"
	"encoding/xml"
	"reflect"
	"slices"
	"strings"
)

// shape returns the fields of a document as text for the reference, such as '{object, causes: [{field, message}]}': objects are in braces, and the
// elements of a list in brackets. Maps are '{KEY: ...}'. Other values have only their field's name.
func shape(of reflect.Type) string {
	if of.Kind() == reflect.Slice {
		return "{items: " + shapeOf(of, nil) + "}"
	}
	return shapeOf(of, nil)
}

// shapeOf returns the shape of a type; empty for a single value. above are the types around it, because a type may contain itself.
func shapeOf(of reflect.Type, above []reflect.Type) string {
	switch of.Kind() {
	case reflect.Pointer:
		return shapeOf(of.Elem(), above)
	case reflect.Slice:
		return "[" + shapeOf(of.Elem(), above) + "]"
	case reflect.Map:
		if inner := shapeOf(of.Elem(), above); inner != "" {
			return "{KEY: " + inner + "}"
		}
		return "{KEY}"
	case reflect.Struct:
		if encodesItself(of) || slices.Contains(above, of) {
			return ""
		}
		return "{" + strings.Join(shapesOfFields(of, append(above, of)), ", ") + "}"
	}
	return ""
}

// encodesItself reports whether a type has its own JSON, such as a time.
func encodesItself(of reflect.Type) bool {
	return reflect.PointerTo(of).Implements(reflect.TypeFor[json.Marshaler]()) || of == reflect.TypeFor[xml.Name]()
}

// shapesOfFields returns the fields of a struct with their shapes, as encoding/json names them.
func shapesOfFields(of reflect.Type, above []reflect.Type) (all []string) {
	for i := range of.NumField() {
		f := of.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == "-" || !f.IsExported() && !f.Anonymous:
			continue
		case f.Anonymous && name == "":
			embedded := f.Type
			if embedded.Kind() == reflect.Pointer {
				embedded = embedded.Elem()
			}
			all = append(all, shapesOfFields(embedded, above)...)
			continue
		case name == "":
			name = f.Name
		}
		inner := shapeOf(f.Type, above)
		if inner == "[]" {
			inner = "[...]"
		}
		if inner != "" {
			name += ": " + inner
		}
		all = append(all, name)
	}
	return all
}
