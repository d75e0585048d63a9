package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/manifests/crds"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	openapierrors "k8s.io/kube-openapi/pkg/validation/errors"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/kube-openapi/pkg/validation/strfmt"
	"k8s.io/kube-openapi/pkg/validation/validate"
	v1 "kubevirt.io/api/core/v1"
	"kubevirt.io/api/instancetype/v1beta1"
	strictjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// An API server reads a manifest by the schema of its kind, before any webhook sees it: unknown fields are refused ('kubectl
// create' asks for that), so are wrong types and missing fields. Go types cannot stand in for it, since some of KubeVirt's
// decode themselves and swallow what they do not know.

// kindSchema is the schema of one version of a kind, in the two forms that the API server's own code wants.
type kindSchema struct {
	fields    *structural.Structural
	validator *validate.SchemaValidator
}

// schemas are read when the first object of a kind comes: that of a VM has 0.7 MB.
type schemas map[schema.GroupVersionKind]kindSchema

// check judges an object of a file by the schema of its kind. Objects of other groups than KubeVirt's and Kiln's, and kinds of KubeVirt that
// Kiln does not serve, are not looked at. The object is not changed.
func (s schemas) check(known *runtime.Scheme, object *unstructured.Unstructured) (field.ErrorList, error) {
	kind := object.GroupVersionKind()
	if !slices.Contains([]string{v1.GroupVersion.Group, v1beta1.SchemeGroupVersion.Group, v1alpha1.GroupVersion.Group}, kind.Group) {
		return nil, nil
	}
	if !known.Recognizes(kind) {
		return field.ErrorList{field.Invalid(field.NewPath("kind"), kind.Kind, fmt.Sprintf("%s has no such kind: correct kind or apiVersion", kind.GroupVersion()))}, nil
	}
	judge, found := s[kind]
	if !found {
		var err error
		if judge, err = readSchema(kind); err != nil {
			return nil, fmt.Errorf("reading the schema of %s: %w", kind, err)
		}
		s[kind] = judge
	}
	if judge.fields == nil {
		return nil, nil
	}
	content := object.DeepCopy().Object
	errs := metadata(content)
	options := structural.UnknownFieldPathOptions{TrackUnknownFieldPaths: true}
	for _, path := range pruning.PruneWithOptions(content, judge.fields, true, options) {
		errs = append(errs, unknownField(path))
	}
	for _, err := range judge.validator.Validate(content).Errors {
		errs = append(errs, mistake(err))
	}
	return errs, nil
}

// metadata is not in the schema of a kind: it is the same for all.
func metadata(content map[string]any) (errs field.ErrorList) {
	raw, err := json.Marshal(content["metadata"])
	if err != nil {
		return field.ErrorList{field.Invalid(field.NewPath("metadata"), "", err.Error())}
	}
	strict, err := strictjson.UnmarshalStrict(raw, &metav1.ObjectMeta{})
	if err != nil {
		return field.ErrorList{field.Invalid(field.NewPath("metadata"), "", err.Error())}
	}
	for _, err := range strict {
		var at strictjson.FieldError
		if errors.As(err, &at) {
			errs = append(errs, unknownField("metadata."+at.FieldPath()))
		}
	}
	return errs
}

func unknownField(path string) *field.Error {
	return &field.Error{Type: field.ErrorTypeForbidden, Field: path, Detail: "unknown field: correct its name, or remove it"}
}

// read are the kinds that this process has read: a function a kind that gives its schema.
var read sync.Map

// readSchema gives the schema of a kind; empty when Kiln does not serve it.
func readSchema(kind schema.GroupVersionKind) (kindSchema, error) {
	once, _ := read.LoadOrStore(kind, sync.OnceValues(func() (kindSchema, error) { return parseSchema(kind) }))
	return once.(func() (kindSchema, error))()
}

// parseSchema reads the schema of a kind from its CRD.
func parseSchema(kind schema.GroupVersionKind) (kindSchema, error) {
	plural := strings.ToLower(kind.Kind) + "s"
	file := plural + ".yaml"
	if kind.Group == v1alpha1.GroupVersion.Group {
		file = plural + "/" + file
	}
	raw, err := crds.Files.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return kindSchema{}, nil
	}
	var crd apiextensionsv1.CustomResourceDefinition
	if err := yaml.Unmarshal(raw, &crd); err != nil {
		return kindSchema{}, err
	}
	for _, version := range crd.Spec.Versions {
		if version.Name == kind.Version {
			return newSchema(version.Schema.OpenAPIV3Schema)
		}
	}
	return kindSchema{}, nil
}

func newSchema(given *apiextensionsv1.JSONSchemaProps) (kindSchema, error) {
	var internal apiextensions.JSONSchemaProps
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(given, &internal, nil); err != nil {
		return kindSchema{}, err
	}
	fields, err := structural.NewStructural(&internal)
	if err != nil {
		return kindSchema{}, err
	}
	raw, err := json.Marshal(given)
	if err != nil {
		return kindSchema{}, err
	}
	var openAPI spec.Schema
	if err := json.Unmarshal(raw, &openAPI); err != nil {
		return kindSchema{}, err
	}
	return kindSchema{fields, validate.NewSchemaValidator(&openAPI, nil, "", strfmt.Default)}, nil
}

// mistake is an error of the schema in the form of all others.
func mistake(err error) *field.Error {
	var invalid *openapierrors.Validation
	if !errors.As(err, &invalid) {
		return field.Invalid(nil, "", err.Error())
	}
	path := strings.TrimPrefix(invalid.Name, ".")
	detail := strings.TrimPrefix(strings.TrimPrefix(err.Error(), invalid.Name+" "), "in body ")
	switch invalid.Code() {
	case openapierrors.RequiredFailCode:
		return &field.Error{Type: field.ErrorTypeRequired, Field: path}
	case openapierrors.EnumFailCode:
		return &field.Error{Type: field.ErrorTypeNotSupported, Field: path, BadValue: invalid.Value, Detail: detail}
	case openapierrors.InvalidTypeCode:
		return &field.Error{Type: field.ErrorTypeTypeInvalid, Field: path, BadValue: invalid.Value, Detail: detail}
	}
	return &field.Error{Type: field.ErrorTypeInvalid, Field: path, BadValue: invalid.Value, Detail: detail}
}
