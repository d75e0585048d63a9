package profile

import (
	"encoding/json"
	"errors"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/kilnvm/kiln/pkg/internal/leaves"
	"github.com/kilnvm/kiln/pkg/internal/message"
	"k8s.io/apimachinery/pkg/util/validation/field"
	strictjson "sigs.k8s.io/json"
)

// decode reads JSON strictly: an unknown field would fill nothing, and its author would wait for it. Trap: types of KubeVirt that have an UnmarshalJSON
// of their own, such as VirtualMachineInstanceSpec, drop unknown fields whatever the decoder says, and take any case of a name.
func (r *reader) decode(raw []byte, into any, at *field.Path) {
	if len(raw) == 0 {
		return
	}
	var tree any
	twice, err := strictjson.UnmarshalStrict(raw, &tree, strictjson.DisallowDuplicateFields)
	if err != nil {
		r.fail(field.Forbidden(at, message.Short(err.Error())).WithOrigin("profile/type"))
		return
	}
	for _, err := range twice {
		var duplicate strictjson.FieldError
		if errors.As(err, &duplicate) {
			twice := field.Forbidden(at.Child(message.Short(duplicate.FieldPath())), "is there twice: remove one of them")
			r.fail(twice.WithOrigin("profile/field"))
		}
	}
	r.unknown(tree, reflect.TypeOf(into), at)
	if err := json.Unmarshal(raw, into); err != nil {
		r.fail(mistyped(raw, reflect.TypeOf(into), at, err))
	}
}

func (r *reader) fail(err *field.Error) {
	if len(r.errs) < maxErrors {
		r.errs = append(r.errs, err)
	}
}

// unknown refuses the fields of a decoded value that its type does not have.
func (r *reader) unknown(value any, of reflect.Type, at *field.Path) {
	for of.Kind() == reflect.Pointer {
		of = of.Elem()
	}
	object, isObject := value.(map[string]any)
	list, isList := value.([]any)
	switch {
	case leaves.Whole(of):
	case isObject && of.Kind() == reflect.Struct:
		known := fieldTypes(of)
		for _, name := range slices.Sorted(maps.Keys(object)) {
			if known[name] == nil {
				r.fail(field.Forbidden(at.Child(message.Short(name)), "unknown field: remove it, or correct its name").WithOrigin("profile/field"))
			} else {
				r.unknown(object[name], known[name], at.Child(name))
			}
		}
	case isObject && of.Kind() == reflect.Map:
		for _, key := range slices.Sorted(maps.Keys(object)) {
			r.unknown(object[key], of.Elem(), at.Key(message.Short(key)))
		}
	case isList && of.Kind() == reflect.Slice:
		for i := range list {
			r.unknown(list[i], of.Elem(), at.Index(i))
		}
	}
}

// fieldTypes returns the types of the fields of a struct by their JSON names, inlined ones included.
func fieldTypes(of reflect.Type) map[string]reflect.Type {
	for of.Kind() == reflect.Pointer {
		of = of.Elem()
	}
	known := map[string]reflect.Type{}
	for _, f := range leaves.Fields(of) {
		if f.Name != "" {
			known[f.Name] = of.Field(f.Index).Type
		} else {
			maps.Copy(known, fieldTypes(of.Field(f.Index).Type))
		}
	}
	return known
}

// mistyped is the error of the first value that its type does not read, at its path. The decoder names no element of a list, and for what reads itself,
// such as a quantity, no path at all.
func mistyped(raw []byte, of reflect.Type, at *field.Path, err error) *field.Error {
	var wrong *json.UnmarshalTypeError
	switch inner, below := inside(raw, of, at); {
	case inner != nil:
		return mistyped(inner.raw, inner.of, below, inner.err)
	case errors.As(err, &wrong):
		return field.TypeInvalid(at, wrong.Value, "must be of type "+wrong.Type.String()).WithOrigin("profile/type")
	}
	return field.Invalid(at, message.Short(strings.Trim(string(raw), `"`)), message.Short(err.Error())).WithOrigin("profile/type")
}

// unread is a value that its type does not read.
type unread struct {
	raw []byte
	of  reflect.Type
	err error
}

// inside returns the first part of a value that its type does not read; nil where the value itself is of a wrong kind.
func inside(raw []byte, of reflect.Type, at *field.Path) (*unread, *field.Path) {
	for of.Kind() == reflect.Pointer {
		of = of.Elem()
	}
	var object map[string]json.RawMessage
	var list []json.RawMessage
	switch {
	case leaves.Whole(of):
	case of.Kind() == reflect.Struct && json.Unmarshal(raw, &object) == nil:
		for _, f := range leaves.Fields(of) {
			if f.Name == "" { // its fields are in the same object
				if found, below := inside(raw, of.Field(f.Index).Type, at); found != nil {
					return found, below
				}
			} else if err := reads(object[f.Name], of.Field(f.Index).Type); err != nil {
				return &unread{object[f.Name], of.Field(f.Index).Type, err}, at.Child(f.Name)
			}
		}
	case of.Kind() == reflect.Map && json.Unmarshal(raw, &object) == nil:
		for _, key := range slices.Sorted(maps.Keys(object)) {
			if err := reads(object[key], of.Elem()); err != nil {
				return &unread{object[key], of.Elem(), err}, at.Key(message.Short(key))
			}
		}
	case of.Kind() == reflect.Slice && json.Unmarshal(raw, &list) == nil:
		for i := range list {
			if err := reads(list[i], of.Elem()); err != nil {
				return &unread{list[i], of.Elem(), err}, at.Index(i)
			}
		}
	}
	return nil, nil
}

func reads(raw json.RawMessage, of reflect.Type) error {
	if len(raw) == 0 {
		return nil
	}
	return json.Unmarshal(raw, reflect.New(of).Interface())
}
