package admission

import (
	"encoding/json"
	"errors"
	"reflect"

	"github.com/kilnvm/kiln/internal/resolve"
	"github.com/kilnvm/kiln/pkg/validate"
	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// decodeObject reads an object of a request into the type that this webhook is for. v1alpha3 and v1 have one schema. A value that the schema accepts and the
// type does not, such as a label that is a number, is the user's mistake. An amount such as 128MB is the user's mistake, too: the schema would answer it with a
// regular expression.
func decodeObject[T any](raw []byte) (*T, error) {
	object := new(T)
	err := json.Unmarshal(raw, object)
	if err == nil {
		return object, nil
	}
	mistake := &field.Error{Type: field.ErrorTypeForbidden, Detail: err.Error(), Origin: "request/unreadable"}
	if wrong := (*json.UnmarshalTypeError)(nil); errors.As(err, &wrong) {
		mistake = validate.Mistyped(wrong, raw)
	} else if found := validate.FirstUndecodable(raw, reflect.TypeFor[T](), nil, err); found.IsQuantity() {
		return nil, &resolve.Refusal{Errors: field.ErrorList{found.NoQuantity()}}
	}
	return nil, &unreadable{&resolve.Refusal{Errors: field.ErrorList{mistake}}}
}

// decodeOld reads the old object of an update; nil on create.
func decodeOld[T any](request *admissionv1.AdmissionRequest) (*T, error) {
	if request.Operation != admissionv1.Update {
		return nil, nil
	}
	return decodeObject[T](request.OldObject.Raw)
}
