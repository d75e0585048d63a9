package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	openapierrors "k8s.io/kube-openapi/pkg/validation/errors"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/kube-openapi/pkg/validation/strfmt"
	"k8s.io/kube-openapi/pkg/validation/validate"
	"sigs.k8s.io/yaml"
)

// crds are where the schemas are, seen from the root of the repository.
const crds = "manifests/crds"

// schema of a CRD. Strict decoding finds most of what the API server finds by it; not what is required, which Go has no word for,
// and neither a wrong type nor an unknown field where the Go type decodes itself.
type schema struct {
	fields *structural.Structural
	*validate.SchemaValidator
}

// readSchema is the schema of the first version of a kind's CRD.
func readSchema(plural string) (schema, error) {
	raw, err := os.ReadFile(filepath.Join(crds, plural+".yaml"))
	if err != nil {
		return schema{}, fmt.Errorf("run it in the root of the repository: %w", err)
	}
	var crd apiextensionsv1.CustomResourceDefinition
	if err := yaml.Unmarshal(raw, &crd); err != nil || len(crd.Spec.Versions) == 0 {
		return schema{}, fmt.Errorf("%s: no version: %w", plural, err)
	}
	// The first version is v1, in which the objects of the cases are written.
	given := crd.Spec.Versions[0].Schema.OpenAPIV3Schema
	var internal apiextensions.JSONSchemaProps
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(given, &internal, nil); err != nil {
		return schema{}, err
	}
	fields, err := structural.NewStructural(&internal)
	if err != nil {
		return schema{}, err
	}
	// The validator wants the OpenAPI types of kube-openapi, which have the same JSON.
	if raw, err = json.Marshal(given); err != nil {
		return schema{}, err
	}
	var openAPI spec.Schema
	if err := json.Unmarshal(raw, &openAPI); err != nil {
		return schema{}, err
	}
	return schema{fields, validate.NewSchemaValidator(&openAPI, nil, "", strfmt.Default)}, nil
}

// refusedFields returns the fields of an object that the schema does not know or refuses, and those that it misses.
func (s schema) refusedFields(object map[string]any) (errs field.ErrorList) {
	options := structural.UnknownFieldPathOptions{TrackUnknownFieldPaths: true}
	// Pruning changes the object, therefore the copy.
	for _, path := range pruning.PruneWithOptions(runtime.DeepCopyJSON(object), s.fields, true, options) {
		errs = append(errs, &field.Error{Type: field.ErrorTypeForbidden, Field: path, Detail: "unknown field"})
	}
	for _, err := range s.Validate(object).Errors {
		// An error of another type than Validation has no path, and stands for the whole object.
		mistake := field.Invalid(nil, "", err.Error())
		var at *openapierrors.Validation
		if errors.As(err, &at) {
			mistake.Field = strings.TrimPrefix(at.Name, ".")
		}
		errs = append(errs, mistake)
	}
	return errs
}
