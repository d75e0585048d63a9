package profile

import (
	"reflect"
	"strings"

	"github.com/kilnvm/kiln/pkg/fieldpath"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// hasPath reports whether a VMI has a path.
func hasPath(vmi *v1.VirtualMachineInstance, path string) bool {
	steps := fieldpath.Parse(path)
	return stepsPresent(vmi, steps) == len(steps)
}

// stepsPresent returns how many steps of a path a VMI has. A zero without a pointer is unset, as everywhere in the API.
func stepsPresent(vmi *v1.VirtualMachineInstance, steps []fieldpath.Step) int {
	v := reflect.ValueOf(vmi)
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
	for i := range v.NumField() {
		f := v.Type().Field(i)
		tag, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if tag == name && name != "" {
			return v.Field(i)
		}
		if f.Anonymous && tag == "" || options == "inline" {
			inner := v.Field(i)
			if inner.Kind() == reflect.Pointer {
				inner = inner.Elem()
			}
			if inner.IsValid() {
				if found := fieldByJSONName(inner, name); found.IsValid() {
					return found
				}
			}
		}
	}
	return reflect.Value{}
}

// isAtContent reports whether an error is at or below what a profile sets. A field beside it that a VM can set does not count: a rule that asks for it
// asks the VM.
func isAtContent(content *v1.VirtualMachineInstance, err *field.Error) bool {
	steps := fieldpath.Parse(err.Field)
	switch missing := len(steps) - stepsPresent(content, steps); {
	case missing == 0:
		return err.Type != field.ErrorTypeRequired || !canSetBeside(steps)
	case missing == 1:
		return !canSetBeside(steps)
	}
	return false
}

// canSetBeside reports whether a VM can set fields at a path besides the fields of a profile. It cannot in elements without names: a list of them is filled
// only if the VM has none.
func canSetBeside(steps []fieldpath.Step) bool {
	at := reflect.TypeFor[v1.VirtualMachineInstance]()
	for _, step := range steps {
		for at.Kind() == reflect.Pointer {
			at = at.Elem()
		}
		switch {
		case at.Kind() == reflect.Slice && names[at.Elem()] == nil:
			return false
		case at.Kind() == reflect.Slice, at.Kind() == reflect.Map:
			at = at.Elem()
		case fieldTypes(at)[step.Text] == nil:
			return false
		default:
			at = fieldTypes(at)[step.Text]
		}
	}
	return true
}
