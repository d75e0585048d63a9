package policy

import (
	"reflect"
	"slices"

	"github.com/kilnvm/kiln/api/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	celtypes "k8s.io/apiserver/pkg/cel"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// mostSchemaDepth is how deep the schema of a param is read. What is deeper has no type.
const mostSchemaDepth = 16

// declareParams returns the type of params: of a ConfigMap by its Go type, of another kind by its schema, and otherwise dyn. Values are what the JSON of the
// object has, so a time is a text, as in a ValidatingAdmissionPolicy.
func (d declarations) declareParams(kind v1alpha1.GuestPolicyParamKind, schema *spec.Schema) *celtypes.DeclType {
	if kind == (v1alpha1.GuestPolicyParamKind{APIVersion: "v1", Kind: "ConfigMap"}) {
		return d.declareType(reflect.TypeFor[corev1.ConfigMap]())
	}
	if schema == nil {
		return celtypes.DynType
	}
	declared := declareSchema(schema, "params."+kind.Kind, mostSchemaDepth)
	if declared.IsObject() { // a schema says no more of metadata than that it is an object
		fields := declared.Fields
		fields["metadata"] = celtypes.NewDeclField("metadata", d.declareType(reflect.TypeFor[metav1.ObjectMeta]()), false, nil, nil)
		for _, name := range []string{"apiVersion", "kind"} {
			fields[name] = celtypes.NewDeclField(name, key, false, nil, nil)
		}
	}
	return declared
}

// declareSchema returns the type of CEL for a schema of OpenAPI; dyn for what has no single type, and for objects that may have fields which the schema does
// not name, or whose names are no identifiers.
func declareSchema(of *spec.Schema, called string, depth int) *celtypes.DeclType {
	for len(of.Type) == 0 && len(of.AllOf) == 1 { // a reference with a default
		of = &of.AllOf[0]
	}
	if len(of.Type) != 1 || depth == 0 || extensionIsSet(of, "x-kubernetes-int-or-string") || extensionIsSet(of, "x-kubernetes-preserve-unknown-fields") {
		return celtypes.DynType
	}
	switch of.Type[0] {
	case "boolean":
		return celtypes.BoolType
	case "integer":
		return celtypes.IntType
	case "string":
		most := int64(mostText)
		if of.MaxLength != nil {
			most = min(most, max(*of.MaxLength, 1))
		}
		return boundedText(celtypes.StringType, most)
	case "array":
		most := int64(mostElements)
		if of.MaxItems != nil {
			most = min(most, max(*of.MaxItems, 1))
		}
		if of.Items == nil || of.Items.Schema == nil {
			return celtypes.NewListType(celtypes.DynType, most)
		}
		return celtypes.NewListType(declareSchema(of.Items.Schema, called+".item", depth-1), most)
	case "object":
		return declareObject(of, called, depth)
	}
	return celtypes.DynType // a number may be 1 or 1.5, which are of two types of CEL
}

// declareObject returns the type of an object of OpenAPI.
func declareObject(of *spec.Schema, called string, depth int) *celtypes.DeclType {
	if more := of.AdditionalProperties; more != nil && more.Schema != nil {
		return celtypes.NewMapType(key, declareSchema(more.Schema, called+".value", depth-1), mostElements)
	}
	if len(of.Properties) == 0 {
		return celtypes.DynType
	}
	fields := map[string]*celtypes.DeclField{}
	for name := range of.Properties {
		if !identifier.MatchString(name) || slices.Contains(reserved[:4], name) { // true, false, null and in
			return celtypes.DynType
		}
		property := of.Properties[name]
		fields[name] = celtypes.NewDeclField(name, declareSchema(&property, called+"."+name, depth-1), false, nil, nil)
	}
	return celtypes.NewObjectType(called, fields)
}

// extensionIsSet reports whether an extension of Kubernetes is true.
func extensionIsSet(of *spec.Schema, name string) bool {
	set, ok := of.Extensions.GetBool(name)
	return ok && set
}
