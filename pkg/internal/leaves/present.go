package leaves

import (
	"reflect"

	"github.com/kilnvm/kiln/pkg/fieldpath"
	"k8s.io/apimachinery/pkg/api/resource"
)

// StepsPresent returns how many steps of a path an object has. A zero without a pointer is unset, as everywhere in the API.
func StepsPresent(object any, steps []fieldpath.Step) int {
	v := reflect.ValueOf(object)
	for i, step := range steps {
		for v.Kind() == reflect.Pointer {
			v = v.Elem()
		}
		if v = childOf(v, step); !v.IsValid() || v.IsZero() {
			return i
		}
		if q, ok := v.Interface().(resource.Quantity); ok && q.IsZero() {
			return i
		}
	}
	return len(steps)
}

// childOf returns a field of a struct, an element of a list or the value of a key; an invalid value if it does not exist.
func childOf(v reflect.Value, step fieldpath.Step) reflect.Value {
	switch v.Kind() {
	case reflect.Struct:
		return fieldByJSONName(v, step.Text)
	case reflect.Map: // requests and limits are named as fields
		return v.MapIndex(reflect.ValueOf(step.Text).Convert(v.Type().Key()))
	case reflect.Slice:
		if i, ok := step.Index(); ok && i < v.Len() {
			return v.Index(i)
		}
	}
	return reflect.Value{}
}

// fieldByJSONName returns the field of a struct, or of a struct embedded in it, that has a JSON name.
func fieldByJSONName(v reflect.Value, name string) reflect.Value {
	for _, f := range Fields(v.Type()) {
		if f.Name == name && name != "" {
			return v.Field(f.Index)
		}
		if f.Name != "" {
			continue
		}
		inner := v.Field(f.Index)
		if inner.Kind() == reflect.Pointer {
			inner = inner.Elem()
		}
		if inner.IsValid() {
			if found := fieldByJSONName(inner, name); found.IsValid() {
				return found
			}
		}
	}
	return reflect.Value{}
}
