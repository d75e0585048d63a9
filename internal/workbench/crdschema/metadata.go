package crdschema

import (
	"encoding/json"
	"slices"

	"github.com/kilnvm/kiln/pkg/validate"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// checkMetadata judges the metadata of a new object as an API server does. The rules are the same for all kinds, and in no schema.
func checkMetadata(content map[string]any, namespaced bool) (errs field.ErrorList) {
	at := field.NewPath("metadata")
	raw, err := json.Marshal(content["metadata"])
	if err != nil {
		return field.ErrorList{field.Invalid(at, "", err.Error())}
	}
	var meta metav1.ObjectMeta
	errs, meta = validate.Metadata(raw, at)
	if slices.ContainsFunc(errs, func(err *field.Error) bool { return err.Type == field.ErrorTypeTypeInvalid }) {
		return errs // decoding ends at a wrong type
	}
	for _, err := range errs {
		if err.Type == field.ErrorTypeForbidden { // validate.Metadata forbids only unknown fields
			err.Origin = RuleUnknownField
		}
	}
	if meta.Name == "" && meta.GenerateName != "" {
		meta.Name = generatedName(meta.GenerateName)
	}
	meta.Generation, meta.ManagedFields = 0, nil // an API server writes its own
	return append(errs, validation.ValidateObjectMeta(&meta, namespaced, validation.NameIsDNSSubdomain, at)...)
}

// generatedName returns a name of the form that an API server generates (k8s.io/apiserver/pkg/storage/names): at most 63 characters, of which the last
// five are random.
func generatedName(base string) string {
	const drawn = "xxxxx"
	return base[:min(len(base), 63-len(drawn))] + drawn
}
