package validate

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/kilnvm/kiln/pkg/nearest"
	"github.com/tidwall/gjson"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
	strictjson "sigs.k8s.io/json"
)

// The metadata that a VM holds for its VMI and for its data volumes. KubeVirt's schema preserves unknown fields there, so that neither kubectl nor the API
// server names a typing error, and Go's decoder drops what it does not know. KubeVirt refuses such fields in its webhook (webhookutils.ValidateSchema).

var embeddedRules = []judgement[func([]byte) field.ErrorList]{
	{EmbeddedMetadata, []Rule{
		{Name: "metadata/unknown-field", KubeVirt: KubeVirtRefusesSome},
		{Name: "metadata/type", KubeVirt: KubeVirtRefusesSome},
	}},
}

// mostEmbedded bounds the errors of one piece of metadata: its author may write thousands of fields.
const mostEmbedded = 16

// EmbeddedMetadata judges the metadata of a VM's template and of its data volume templates: the names of the fields and the types of their values. raw is the
// JSON of the VM.
func EmbeddedMetadata(raw []byte) (errs field.ErrorList) {
	spec := field.NewPath("spec")
	errs = judgeEmbedded(gjson.GetBytes(raw, "spec.template.metadata"), spec.Child("template", "metadata"))
	for i, template := range gjson.GetBytes(raw, "spec.dataVolumeTemplates").Array() {
		errs = append(errs, judgeEmbedded(template.Get("metadata"), spec.Child("dataVolumeTemplates").Index(i).Child("metadata"))...)
	}
	return errs
}

// AddedEmbeddedMetadata returns the errors of EmbeddedMetadata that an update adds, so that an object that is older than these rules stays editable.
func AddedEmbeddedMetadata(raw, old []byte) field.ErrorList {
	errs := EmbeddedMetadata(raw)
	if len(errs) == 0 || len(old) == 0 {
		return errs
	}
	had := sets.New[string]()
	for _, err := range EmbeddedMetadata(old) {
		had.Insert(err.Error())
	}
	return slices.DeleteFunc(errs, func(err *field.Error) bool { return had.Has(err.Error()) })
}

// metadataFields are the fields of metadata, and guestFields the fields of a VMI's spec. People write some of them one level too high.
var metadataFields, guestFields = fieldsOf[metav1.ObjectMeta](), fieldsOf[v1.VirtualMachineInstanceSpec]()

// fieldsOf returns the names of the fields of a type in JSON.
func fieldsOf[T any]() (names []string) {
	for _, f := range reflect.VisibleFields(reflect.TypeFor[T]()) {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" && name != "-" {
			names = append(names, name)
		}
	}
	return names
}

func judgeEmbedded(value gjson.Result, at *field.Path) field.ErrorList {
	if !value.Exists() || value.Type == gjson.Null {
		return nil
	}
	errs, _ := Metadata([]byte(value.Raw), at)
	return errs
}

// Metadata decodes metadata. It returns an error for each unknown field, and for each label and annotation that is not a text. With an error of type
// TypeInvalid the returned metadata is not complete. Names and values are not judged.
func Metadata(raw []byte, at *field.Path) (errs field.ErrorList, meta metav1.ObjectMeta) {
	for _, name := range []string{"labels", "annotations"} {
		gjson.GetBytes(raw, name).ForEach(func(key, text gjson.Result) bool {
			if text.Type != gjson.String && text.Type != gjson.Null {
				errs = append(errs, textExpected(at.Child(name).Key(key.Str), text))
			}
			return len(errs) < mostEmbedded
		})
	}
	if len(errs) > 0 {
		return errs, meta
	}
	strict, err := strictjson.UnmarshalStrict(raw, &meta)
	var mistyped *json.UnmarshalTypeError
	switch {
	case errors.As(err, &mistyped) && mistyped.Field != "":
		wrong := field.TypeInvalid(at.Child(mistyped.Field), mistyped.Value, "must be "+typeInWords(mistyped.Type))
		return append(errs, wrong.WithOrigin("metadata/type")), meta
	case err != nil:
		return append(errs, field.TypeInvalid(at, short(string(raw)), err.Error()).WithOrigin("metadata/type")), meta
	}
	for _, err := range strict {
		var unknown strictjson.FieldError
		if errors.As(err, &unknown) && len(errs) < mostEmbedded {
			errs = append(errs, UnknownField(at.String()+"."+unknown.FieldPath(), likelyMetadata(at, unknown.FieldPath())).WithOrigin("metadata/unknown-field"))
		}
	}
	return errs, meta
}

// Mistyped returns the error about a value that its Go type cannot hold. raw is the JSON of the object, which is needed because the paths of encoding/json do
// not have the indices of lists.
func Mistyped(err *json.UnmarshalTypeError, raw []byte) *field.Error {
	parts := strings.Split(err.Field, ".")
	var given gjson.Result
	path := pathOfValue(gjson.ParseBytes(raw), parts, func(value gjson.Result) bool {
		given = value
		return isOfType(value, err.Value)
	})
	if path == nil {
		path, given = field.NewPath(parts[0], parts[1:]...), gjson.Result{Type: gjson.String, Str: valueInWords(err.Value)}
	}
	detail := "must be " + typeInWords(err.Type)
	if given.Type != gjson.Number {
		detail += ", not " + valueInWords(err.Value)
	}
	return &field.Error{Type: field.ErrorTypeTypeInvalid, Field: path.String(), BadValue: asWritten(given), Detail: detail, Origin: "request/unreadable"}
}

// valueInWords is what encoding/json calls a value, in the words of a manifest.
func valueInWords(value string) string {
	words := map[string]string{"string": "text", "bool": "true or false", "array": "a list", "object": "a map of fields", "number": "a number"}
	return cmp.Or(words[value], strings.TrimPrefix(value, "number "))
}

// isOfType reports whether a value is what encoding/json calls by these words: its type, and for a number out of range also its digits.
func isOfType(value gjson.Result, words string) bool {
	kind, digits, numeric := strings.Cut(words, " ")
	switch {
	case numeric:
		return value.Raw == digits
	case kind == "bool":
		return value.IsBool()
	case kind == "array":
		return value.IsArray()
	case kind == "object":
		return value.IsObject()
	}
	return kind == "string" && value.Type == gjson.String || kind == "number" && value.Type == gjson.Number
}

// asWritten returns a value as an error shows it: JSON, or the beginning of it.
func asWritten(value gjson.Result) any {
	if value.Type == gjson.String || len(value.Raw) > maxShort {
		return short(value.String())
	}
	return json.RawMessage(value.Raw)
}

// pathOfValue returns the path of the first value below these names for which wanted is true; nil if it is false for all.
func pathOfValue(in gjson.Result, names []string, wanted func(gjson.Result) bool) *field.Path {
	var find func(in gjson.Result, names []string, at *field.Path) *field.Path
	find = func(in gjson.Result, names []string, at *field.Path) *field.Path {
		if in.IsArray() && !(len(names) == 0 && wanted(in)) {
			for i, element := range in.Array() {
				if found := find(element, names, at.Index(i)); found != nil {
					return found
				}
			}
			return nil
		}
		if len(names) == 0 {
			if wanted(in) {
				return at
			}
			return nil
		}
		var found *field.Path
		in.ForEach(func(key, value gjson.Result) bool {
			if key.Str == names[0] {
				found = find(value, names[1:], at.Child(names[0]))
			}
			return found == nil
		})
		return found
	}
	return find(in, names, nil)
}

// typeInWords is what a value of a Go type looks like in a manifest.
func typeInWords(of reflect.Type) string {
	switch of.Kind() {
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return "a whole number, 0 or more"
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return "a whole number"
	case reflect.Bool:
		return "true or false"
	case reflect.String:
		return "text"
	case reflect.Slice, reflect.Array:
		return "a list"
	case reflect.Struct, reflect.Map, reflect.Pointer:
		return "a map of fields"
	}
	return "of type " + of.String()
}

// textExpected is the error for a label or annotation that YAML reads as something else than text: version: 1.0 is a number.
func textExpected(at *field.Path, value gjson.Result) *field.Error {
	return field.TypeInvalid(at, value.Value(), "must be text: write it in quotes").WithOrigin("metadata/type")
}

// likelyMetadata returns the field that was probably meant by one of metadata: another one of metadata, or one of the VMI that stands in the wrong place.
func likelyMetadata(at *field.Path, name string) string {
	if strings.Contains(name, ".") {
		return ""
	}
	guest := field.NewPath("spec", "template", "spec")
	switch ofTemplate := at.String() == field.NewPath("spec", "template", "metadata").String(); {
	case ofTemplate && name == "spec":
		return guest.String()
	case ofTemplate && slices.Contains(guestFields, name):
		return guest.Child(name).String()
	}
	return nearest.Name(name, metadataFields)
}

// UnknownField returns the error about a field that the API does not have. likely is the field that was probably meant; empty if it is not known. Without this
// error a misspelt field would silently have no effect.
func UnknownField(path, likely string) *field.Error {
	detail := "unknown field: correct its name, or remove it"
	if likely != "" {
		detail = fmt.Sprintf("unknown field: did you mean '%s'?", likely)
	}
	return &field.Error{Type: field.ErrorTypeForbidden, Field: path, Detail: detail}
}
