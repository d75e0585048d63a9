// Package crdschema checks an untyped object against the CRD of its kind, as an API server does before it calls a webhook. Wrong types and missing fields are
// refused, and unknown fields too, because 'kubectl create' requests that. Go types cannot replace the schema: some of KubeVirt's types have their own
// decoder and drop unknown fields.
package crdschema

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/manifests/crds"
	"github.com/kilnvm/kiln/pkg/nearest"
	engine "github.com/kilnvm/kiln/pkg/validate"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	openapierrors "k8s.io/kube-openapi/pkg/validation/errors"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/kube-openapi/pkg/validation/strfmt"
	"k8s.io/kube-openapi/pkg/validation/validate"
	clone "kubevirt.io/api/clone/v1beta1"
	v1 "kubevirt.io/api/core/v1"
	"kubevirt.io/api/instancetype/v1beta1"
	snapshot "kubevirt.io/api/snapshot/v1beta1"
	"sigs.k8s.io/yaml"
)

// kindSchema is the schema of one version of a kind, from its CRD.
type kindSchema struct {
	// defined reports that the kind has a CRD, and served that the CRD serves this version.
	defined, served bool
	namespaced      bool
	// warning is the deprecation warning of this version.
	warning string
	// fields and validator have the same schema, in the two forms that the code of the API server needs.
	fields    *structural.Structural
	validator *validate.SchemaValidator
}

// served are the API groups with kinds that Kiln serves.
var served = []string{
	v1.GroupVersion.Group, v1beta1.SchemeGroupVersion.Group, v1alpha1.GroupVersion.Group, snapshot.SchemeGroupVersion.Group, clone.SchemeGroupVersion.Group,
}

// fileKinds are the kinds of Kiln's group that no cluster has. Commands read them from files.
var fileKinds = []string{v1alpha1.KindHostCapabilities, v1alpha1.KindGuestPolicyTest}

// IsFileKind reports whether commands read objects of this kind only from files, because no cluster has it.
func IsFileKind(kind schema.GroupVersionKind) bool {
	return kind.Group == v1alpha1.GroupVersion.Group && slices.Contains(fileKinds, kind.Kind)
}

// Findings are the results of checking an object against the schema of its kind.
type Findings struct {
	// Mistakes are the errors for which an API server refuses the object.
	Mistakes field.ErrorList
	// EmptyKeys are the paths of keys without a value. An API server drops them on create, and refuses them on server-side apply.
	EmptyKeys []string
}

// Check checks an object against the schema of its kind. It does not change the object. It returns no findings for groups other than KubeVirt's and Kiln's,
// nor for kinds of KubeVirt that Kiln does not serve.
func Check(object *unstructured.Unstructured) (Findings, error) {
	known, err := Scheme()
	if err != nil {
		return Findings{}, err
	}
	kind := object.GroupVersionKind()
	by, err := schemaOf(kind)
	switch {
	case err != nil:
		return Findings{}, err
	case IsFileKind(kind):
		return Findings{}, nil
	case !by.defined && (!slices.Contains(served, kind.Group) || len(known.VersionsForGroupKind(kind.GroupKind())) > 0):
		return Findings{}, nil
	case !by.served:
		return Findings{Mistakes: field.ErrorList{field.Invalid(field.NewPath("kind"), kind.Kind,
			fmt.Sprintf("%s has no such kind: correct kind or apiVersion", kind.GroupVersion()))}}, nil
	}
	raw, err := object.MarshalJSON()
	if err != nil {
		return Findings{}, err
	}
	// As in the webhook, the rest is not judged then: a list of 100,000 elements may have as many mistakes.
	if over := engine.Counts(raw); over != nil {
		return Findings{Mistakes: field.ErrorList{over}}, nil
	}
	return Findings{by.findMistakes(object), emptyKeys(object.Object, by.fields, nil)}, nil
}

// Convert changes the apiVersion of an object to the version of Kiln's types, as the API server does for the webhook, and returns the deprecation warning of
// the version that it had. Nothing else changes: the CRDs have no conversion.
func Convert(object *unstructured.Unstructured) (deprecation string, err error) {
	known, err := Scheme()
	if err != nil {
		return "", err
	}
	kind := object.GroupVersionKind()
	found, err := schemaOf(kind)
	if err != nil || !found.served || known.Recognizes(kind) {
		return "", err
	}
	object.SetAPIVersion(known.VersionsForGroupKind(kind.GroupKind())[0].String())
	return found.warning, nil
}

// findMistakes returns the errors by the schema and by the rules on metadata.
func (k kindSchema) findMistakes(object *unstructured.Unstructured) field.ErrorList {
	// A copy, because pruning removes the unknown fields that it reports.
	content := object.DeepCopy().Object
	errs := checkMetadata(content, k.namespaced)
	options := structural.UnknownFieldPathOptions{TrackUnknownFieldPaths: true}
	meant := map[string]bool{} // fields that are missing because their names were probably misspelled
	for _, path := range pruning.PruneWithOptions(content, k.fields, true, options) {
		likely := likelyField(k.fields, path)
		errs = append(errs, engine.UnknownField(path, likely).WithOrigin(RuleUnknownField))
		if parent, _, nested := cutLast(path); nested && likely != "" {
			meant[parent+"."+likely] = true
		}
	}
	defaulting.PruneNonNullableNullsWithoutDefaults(content, k.fields) // as an API server does on create
	wrong := judgeTypes(content, k.fields)
	seen := placesWithMistakes{}
	seen.addErrors(errs...)
	seen.addErrors(wrong...)
	for _, err := range k.validator.Validate(content).Errors {
		if found := fieldError(err); !seen.coversMistake(found) && !(found.Type == field.ErrorTypeRequired && meant[found.Field]) {
			wrong = append(wrong, found)
			seen.addErrors(found)
		}
	}
	slices.SortStableFunc(wrong, func(a, b *field.Error) int {
		return cmp.Or(strings.Compare(a.Field, b.Field), strings.Compare(a.Error(), b.Error()))
	})
	return engine.Most(append(errs, wrong...))
}

// UnknownFields returns the paths of fields that the CRD of the object's kind does not have, sorted. An object of a cluster has such fields if the API of the
// cluster is newer than this program.
func UnknownFields(object *unstructured.Unstructured) ([]string, error) {
	by, err := schemaOf(object.GroupVersionKind())
	if err != nil || !by.served {
		return nil, err
	}
	options := structural.UnknownFieldPathOptions{TrackUnknownFieldPaths: true}
	paths := pruning.PruneWithOptions(object.DeepCopy().Object, by.fields, true, options)
	slices.Sort(paths)
	return paths, nil
}

// RuleUnknownField is the Origin of the error for a field that the API does not have.
const RuleUnknownField = "schema/unknown-field"

// parsedSchemas has a function for each kind that returns its schema. A schema is parsed only when the first object of its kind is read, because the schema of
// a VM has 0.7 MB.
var parsedSchemas sync.Map

// schemaOf returns the schema of a kind; the zero value for groups other than KubeVirt's and Kiln's, and for kinds without a CRD.
func schemaOf(kind schema.GroupVersionKind) (kindSchema, error) {
	if !slices.Contains(served, kind.Group) {
		return kindSchema{}, nil
	}
	once, _ := parsedSchemas.LoadOrStore(kind, sync.OnceValues(func() (kindSchema, error) { return parseSchema(kind) }))
	found, err := once.(func() (kindSchema, error))()
	if err != nil {
		return kindSchema{}, fmt.Errorf("reading the schema of %s: %w", kind, err)
	}
	return found, nil
}

// parseSchema reads the schema of a kind from its CRD.
func parseSchema(kind schema.GroupVersionKind) (kindSchema, error) {
	plural := strings.ToLower(kind.Kind) + "s"
	if stem, found := strings.CutSuffix(plural, "ys"); found { // GuestPolicy
		plural = stem + "ies"
	}
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
	if crd.Spec.Group != kind.Group || crd.Spec.Names.Kind != kind.Kind {
		return kindSchema{}, nil
	}
	found := kindSchema{defined: true, namespaced: crd.Spec.Scope == apiextensionsv1.NamespaceScoped}
	for _, version := range crd.Spec.Versions {
		if version.Name == kind.Version && version.Served {
			return found.withVersion(version)
		}
	}
	return found, nil
}

// withVersion adds the schema of one version.
func (k kindSchema) withVersion(version apiextensionsv1.CustomResourceDefinitionVersion) (kindSchema, error) {
	k.served = true
	if version.DeprecationWarning != nil {
		k.warning = *version.DeprecationWarning
	}
	given := version.Schema.OpenAPIV3Schema
	var internal apiextensions.JSONSchemaProps
	err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(given, &internal, nil)
	if err != nil {
		return kindSchema{}, err
	}
	if k.fields, err = structural.NewStructural(&internal); err != nil {
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
	k.validator = validate.NewSchemaValidator(&openAPI, nil, "", strfmt.Default)
	return k, nil
}

// fieldError converts an error of the validator to a field error.
func fieldError(err error) *field.Error {
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
		return unsupportedValue(path, invalid)
	case openapierrors.PatternFailCode:
		if text, isText := invalid.Value.(string); isText && strings.Contains(detail, quantityPattern) {
			detail = engine.NoQuantity(text)
		}
	case openapierrors.InvalidTypeCode:
		return &field.Error{Type: field.ErrorTypeTypeInvalid, Field: path, BadValue: invalid.Value, Detail: detail}
	}
	return &field.Error{Type: field.ErrorTypeInvalid, Field: path, BadValue: invalid.Value, Detail: detail}
}

// quantityPattern is a part of controller-gen's pattern for quantities, and of no other pattern of a schema.
const quantityPattern = "(([KMGTPE]i)|[numkMGTPE]|"

// unsupportedValue returns an API server's error for a value that is not in an enum, and suggests the value that was probably meant.
func unsupportedValue(path string, invalid *openapierrors.Validation) *field.Error {
	var supported []string
	for _, value := range invalid.Values {
		supported = append(supported, fmt.Sprint(value))
	}
	word, isText := invalid.Value.(string)
	if !isText {
		word = fmt.Sprint(invalid.Value)
	}
	err := nearest.Unsupported(nil, word, supported)
	err.Field, err.BadValue = path, invalid.Value
	return err
}
