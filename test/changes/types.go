package changes

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// EachField calls visit with an object of the type for each field that it can have and each value: the object has nothing but this field, and the names of the
// elements of lists that lead to it. Objects without fields are tried as they are.
func EachField(of reflect.Type, more []any, visit func(Single)) {
	walkType(of, func(value any) any { return value }, "", func(path string, with func(any) any) {
		for _, value := range slices.Concat([]any{map[string]any{}}, hostile, more) {
			if object, is := with(value).(map[string]any); is {
				visit(Single{What: fmt.Sprintf("%s is %q", path, fmt.Sprint(value)), Object: object})
			}
		}
	})
}

// walkType visits the leaves of a type. with wraps the value of a leaf in what leads to it.
func walkType(t reflect.Type, with func(any) any, path string, visit func(string, func(any) any)) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case t.Kind() == reflect.Slice && t.Elem().Kind() != reflect.Uint8:
		walkType(t.Elem(), func(value any) any {
			if element, is := value.(map[string]any); is && element["name"] == nil && hasNameField(t.Elem()) {
				element["name"] = "root"
			}
			return with([]any{value})
		}, path+"[]", visit)
	case t.Kind() == reflect.Map:
		for _, key := range []string{"memory", "a b"} {
			walkType(t.Elem(), func(value any) any { return with(map[string]any{key: value}) }, path+"["+key+"]", visit)
		}
	case t.Kind() == reflect.Struct && t.NumField() > 0 && t.Name() != "Quantity" && t.Name() != "Time" && t.Name() != "IntOrString":
		for i := range t.NumField() {
			name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
			switch {
			case name == "" && t.Field(i).Anonymous:
				walkType(t.Field(i).Type, with, path, visit)
			case name != "" && name != "-":
				walkType(t.Field(i).Type, func(value any) any { return with(map[string]any{name: value}) }, strings.TrimPrefix(path+"."+name, "."), visit)
			}
		}
	default:
		visit(path, with)
	}
}

// hasNameField reports whether a structure has a field 'name'.
func hasNameField(t reflect.Type) bool {
	return t.Kind() == reflect.Struct && slices.ContainsFunc(reflect.VisibleFields(t), func(f reflect.StructField) bool {
		return strings.HasPrefix(f.Tag.Get("json")+",", "name,")
	})
}
