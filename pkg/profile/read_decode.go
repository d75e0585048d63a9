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
	"github.com/kilnvm/kiln/pkg/validate"
	"k8s.io/apimachinery/pkg/util/validation/field"
	strictjson "sigs.k8s.io/json"
)

// decodeStrictly reads JSON strictly: an unknown field would fill nothing, and its author would wait for it. Trap: types of KubeVirt that have an UnmarshalJSON
// of their own, such as VirtualMachineInstanceSpec, drop unknown fields whatever the decoder says, and take any case of a name.
func (r *reader) decodeStrictly(raw []byte, into any, at *field.Path) {
	if len(raw) == 0 {
		return
	}
	var tree any
	twice, err := strictjson.UnmarshalStrict(raw, &tree, strictjson.DisallowDuplicateFields)
	if err != nil {
		r.addError(field.Forbidden(at, message.Short(err.Error())).WithOrigin("profile/type"))
		return
	}
	for _, err := range twice {
		var duplicate strictjson.FieldError
		if errors.As(err, &duplicate) {
			twice := field.Forbidden(at.Child(message.Short(duplicate.FieldPath())), "is there twice: remove one of them")
			r.addError(twice.WithOrigin("profile/field"))
		}
	}
	r.refuseUnknownFields(tree, reflect.TypeOf(into), at)
	if err := json.Unmarshal(raw, into); err != nil {
		r.addError(typeError(raw, reflect.TypeOf(into), at, err))
	}
}

func (r *reader) addError(err *field.Error) {
	if len(r.errs) < maxErrors {
		r.errs = append(r.errs, err)
	}
}

// refuseUnknownFields refuses the fields of a decoded value that its type does not have.
func (r *reader) refuseUnknownFields(value any, of reflect.Type, at *field.Path) {
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
				r.addError(field.Forbidden(at.Child(message.Short(name)), "unknown field: remove it, or correct its name").WithOrigin("profile/field"))
			} else {
				r.refuseUnknownFields(object[name], known[name], at.Child(name))
			}
		}
	case isObject && of.Kind() == reflect.Map:
		for _, key := range slices.Sorted(maps.Keys(object)) {
			r.refuseUnknownFields(object[key], of.Elem(), at.Key(message.Short(key)))
		}
	case isList && of.Kind() == reflect.Slice:
		for i := range list {
			r.refuseUnknownFields(list[i], of.Elem(), at.Index(i))
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

// typeError is the error of the first value that its type does not read, at its path.
func typeError(raw []byte, of reflect.Type, at *field.Path, err error) *field.Error {
	var wrong *json.UnmarshalTypeError
	found := validate.FirstUndecodable(raw, of, at, err)
	switch {
	case found.IsQuantity():
		return found.NoQuantity().WithOrigin("profile/type")
	case errors.As(found.Err, &wrong):
		return field.TypeInvalid(found.Path, wrong.Value, "must be of type "+wrong.Type.String()).WithOrigin("profile/type")
	}
	return field.Invalid(found.Path, message.Short(strings.Trim(string(found.Raw), `"`)), message.Short(found.Err.Error())).WithOrigin("profile/type")
}
