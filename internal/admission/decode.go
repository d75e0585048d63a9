package admission

import (
	"encoding/json"
	"errors"
	"reflect"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	jsonv1 "github.com/go-json-experiment/json/v1"
	"github.com/kilnvm/kiln/internal/resolve"
	"github.com/kilnvm/kiln/pkg/validate"
	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// Reading is most of the work of a request: encoding/json reads each byte of an object six times, since it checks all bytes before it decodes them, and
// does so again for the object in a review and for the spec in an object, which decode themselves. The decoder of encoding/json/v2 reads them twice: with
// the review, and as the object. Its answers are those of encoding/json: with the options of v1 it is what encoding/json is made of from Go 1.27 on, and
// FuzzUnmarshal compares them.

var (
	// asReview are the options of encoding/json. The errors need not be those of encoding/json, see unmarshal: for these the decoder would check all bytes of
	// an object, and of each spec once more, before it decodes them.
	asReview = jsonv2.JoinOptions(jsonv1.DefaultOptionsV1(), jsonv1.ReportErrorsWithLegacySemantics(false))
	// asObject decodes specs in place, too. Each value costs a look at its type, and a review has no spec outside of its objects.
	asObject = jsonv2.JoinOptions(asReview, jsonv2.WithUnmarshalers(jsonv2.UnmarshalFromFunc(readSpec)))
)

// errNameservers leaves a spec to KubeVirt's own method, which writes the addresses of name servers in their canonical form.
var errNameservers = errors.New("the spec has name servers")

// readSpec does for a spec what KubeVirt's UnmarshalJSON does, without a copy of its bytes and another check of them.
func readSpec(from *jsontext.Decoder, into *v1.VirtualMachineInstanceSpec) error {
	type plain v1.VirtualMachineInstanceSpec // has no UnmarshalJSON
	var spec plain
	if err := jsonv2.UnmarshalDecode(from, &spec); err != nil {
		return err
	}
	if spec.DNSConfig != nil && len(spec.DNSConfig.Nameservers) > 0 {
		return errNameservers
	}
	*into = v1.VirtualMachineInstanceSpec(spec)
	return nil
}

// unmarshal reads JSON as encoding/json does. What the faster decoder refuses is read again by encoding/json itself: users know its errors.
func unmarshal[T any](raw []byte, as jsonv2.Options) (*T, error) {
	object := new(T)
	if jsonv2.Unmarshal(raw, object, as) == nil {
		return object, nil
	}
	object = new(T)
	return object, json.Unmarshal(raw, object)
}

// decode reads an object of a request into the type that this webhook is for. v1alpha3 and v1 have one schema. What the
// schema lets pass and the type does not, such as a label that is a number, is the user's mistake. So is an amount such as 128MB, which the schema would answer
// by a regular expression.
func decode[T any](raw []byte) (*T, error) {
	object, err := unmarshal[T](raw, asObject)
	if err == nil {
		return object, nil
	}
	mistake := &field.Error{Type: field.ErrorTypeForbidden, Detail: err.Error(), Origin: "request/unreadable"}
	if wrong := (*json.UnmarshalTypeError)(nil); errors.As(err, &wrong) {
		mistake = validate.Mistyped(wrong, raw)
	} else if found := validate.FirstUnread(raw, reflect.TypeFor[T](), nil, err); found.IsQuantity() {
		return nil, &resolve.Refusal{Errors: field.ErrorList{found.NoQuantity()}}
	}
	return nil, &unreadable{&resolve.Refusal{Errors: field.ErrorList{mistake}}}
}

// decodeOld reads the old object of an update; nil on create.
func decodeOld[T any](request *admissionv1.AdmissionRequest) (*T, error) {
	if request.Operation != admissionv1.Update {
		return nil, nil
	}
	return decode[T](request.OldObject.Raw)
}
