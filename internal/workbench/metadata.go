package workbench

import (
	"encoding/json"
	"errors"

	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	strictjson "sigs.k8s.io/json"
)

// metadata judges metadata as the API server does with a custom resource that is created: it is the same for all kinds, and in no schema. The API
// server does not judge the metadata of a VM's template, so this does not either.
func metadata(content map[string]any, namespaced bool) (errs field.ErrorList) {
	at := field.NewPath("metadata")
	raw, err := json.Marshal(content["metadata"])
	if err != nil {
		return field.ErrorList{field.Invalid(at, "", err.Error())}
	}
	var meta metav1.ObjectMeta
	strict, err := strictjson.UnmarshalStrict(raw, &meta)
	// A wrong type ends the decoding, so that it is the only error.
	var mistyped *json.UnmarshalTypeError
	if errors.As(err, &mistyped) {
		if mistyped.Field != "" {
			at = at.Child(mistyped.Field)
		}
		return field.ErrorList{field.TypeInvalid(at, mistyped.Value, "must be of type "+mistyped.Type.String())}
	}
	if err != nil {
		return field.ErrorList{field.Invalid(at, "", err.Error())}
	}
	for _, err := range strict {
		var unknown strictjson.FieldError
		if errors.As(err, &unknown) {
			errs = append(errs, unknownField("metadata."+unknown.FieldPath()))
		}
	}
	if meta.Name == "" && meta.GenerateName != "" {
		meta.Name = generated(meta.GenerateName)
	}
	meta.Generation, meta.ManagedFields = 0, nil // an API server writes its own
	return append(errs, validation.ValidateObjectMeta(&meta, namespaced, validation.NameIsDNSSubdomain, at)...)
}

// generated returns a name as an API server makes it (k8s.io/apiserver/pkg/storage/names): at most 63 characters, of which the last
// five are drawn.
func generated(base string) string {
	const drawn = "xxxxx"
	return base[:min(len(base), 63-len(drawn))] + drawn
}
