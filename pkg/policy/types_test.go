package policy

import (
	"reflect"
	"strings"
	"testing"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/manifests/crds"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	celtypes "k8s.io/apiserver/pkg/cel"
	"sigs.k8s.io/yaml"
)

// TestTypesAreTheSchema: the types of CEL are read from Go types, and the definitions are what a cluster serves. Both have the same fields, of the
// same types.
func TestTypesAreTheSchema(t *testing.T) {
	t.Parallel()
	vm, err := worlds[v1alpha1.PolicyVirtualMachines]()
	if err != nil {
		t.Fatal(err)
	}
	for variable, kind := range map[string]string{varObject: "virtualmachines", varGuest: "virtualmachineinstances",
		varInstancetype: "virtualmachineclusterinstancetypes", varPreference: "virtualmachineclusterpreferences"} {
		raw, err := crds.Files.ReadFile(kind + ".yaml")
		if err != nil {
			t.Fatal(err)
		}
		var crd apiextensionsv1.CustomResourceDefinition
		if err := yaml.Unmarshal(raw, &crd); err != nil {
			t.Fatal(err)
		}
		for _, version := range crd.Spec.Versions {
			if !version.Storage {
				continue
			}
			compared := 0
			compare(t, kind, *version.Schema.OpenAPIV3Schema, vm.types[variable], &compared)
			if compared < 100 && kind != "virtualmachineclusterinstancetypes" {
				t.Errorf("%s: %d fields were compared", kind, compared)
			}
		}
	}
}

// compare compares a schema with a type.
func compare(t *testing.T, at string, schema apiextensionsv1.JSONSchemaProps, declared *celtypes.DeclType, compared *int) {
	*compared++
	if strings.HasSuffix(at, ".metadata") && !strings.Contains(at, ".spec.") || declared == celtypes.DynType {
		return // the API server knows the metadata of objects without a schema
	}
	switch {
	case schema.XPreserveUnknownFields != nil && *schema.XPreserveUnknownFields && len(schema.Properties) == 0:
		if declared.IsList() {
			t.Errorf("%s: %s for an object of any fields", at, declared.TypeName())
		}
	case schema.XIntOrString:
		if declared != scalar {
			t.Errorf("%s: %s for a number or text", at, declared.TypeName())
		}
	case schema.Type == "array":
		if !declared.IsList() {
			t.Errorf("%s: %s for a list", at, declared.TypeName())
			return
		}
		compare(t, at+"[]", *schema.Items.Schema, declared.ElemType, compared)
	case schema.Type == "object" && schema.AdditionalProperties != nil && schema.AdditionalProperties.Schema != nil:
		if !declared.IsMap() {
			t.Errorf("%s: %s for a map", at, declared.TypeName())
			return
		}
		compare(t, at+"{}", *schema.AdditionalProperties.Schema, declared.ElemType, compared)
	case schema.Type == "object":
		for name, property := range schema.Properties {
			field := declared.Fields[name]
			if field == nil {
				t.Errorf("%s.%s: the type has no such field", at, name)
				continue
			}
			compare(t, at+"."+name, property, field.Type, compared)
		}
		for name := range declared.Fields {
			if _, ok := schema.Properties[name]; !ok {
				t.Errorf("%s.%s: the schema has no such field", at, name)
			}
		}
	default:
		want := map[string]string{"string": "string", "boolean": "bool", "integer": "int", "number": "double"}[schema.Type]
		if declared.TypeName() != want {
			t.Errorf("%s: %s for %s", at, declared.TypeName(), want)
		}
	}
}

// TestTypesAreShared: the domain of a VM's template and of the guest can be compared.
func TestTypesAreShared(t *testing.T) {
	t.Parallel()
	vm, err := worlds[v1alpha1.PolicyVirtualMachines]()
	if err != nil {
		t.Fatal(err)
	}
	written := typeAtPath(vm.types[varObject], strings.Split("spec.template.spec.domain", "."))
	boots := typeAtPath(vm.types[varGuest], strings.Split("spec.domain", "."))
	if written != boots || written == nil {
		t.Errorf("%v and %v", written, boots)
	}
	if !reflect.DeepEqual(written.CelType(), boots.CelType()) {
		t.Error("two types")
	}
}
