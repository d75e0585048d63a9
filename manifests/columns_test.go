package manifests_test

import (
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/registry/customresource/tableconvertor"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// TestColumns: 'kubectl get -o wide' shows of an object what people look for, also where it has defaults.
func TestColumns(t *testing.T) {
	for _, c := range []struct {
		definition, object string
		want               map[string]any
	}{
		{"crds/guestpolicies/guestpolicies.yaml", "spec: {validations: [{expression: guest == null}, {expression: 'true', field: spec.domain}]}",
			map[string]any{"Actions": `["Deny"]`, "First Validation": "guest == null"}},
		{"crds/guestpolicies/guestpolicies.yaml", "spec: {validations: [{expression: 'true'}], validationActions: [Warn, Audit]}",
			map[string]any{"Actions": `["Warn","Audit"]`, "First Validation": "true"}},
		{"crds/virtualmachines.yaml", "spec: {instancetype: {name: u1.small}, preference: {name: fedora}}",
			map[string]any{"Instancetype": "u1.small", "Preference": "fedora"}},
		{"crds/virtualmachines.yaml", "spec: {}", map[string]any{"Instancetype": nil, "Preference": nil}},
		{"crds/virtualmachines.yaml", "status: {conditions: [{type: Paused, message: no}, {type: Ready, message: the guest runs on node 'a'}]}",
			map[string]any{"Message": "the guest runs on node 'a'"}},
	} {
		got := cells(t, c.definition, c.object)
		for name := range got {
			if _, wanted := c.want[name]; !wanted {
				delete(got, name)
			}
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s of %s (-want +got):\n%s", c.definition, c.object, diff)
		}
	}
}

// cells are what an API server prints of an object with its defaults, by the names of the columns of the definition's first version.
func cells(t *testing.T, definition, text string) map[string]any {
	t.Helper()
	raw, err := os.ReadFile(definition)
	if err != nil {
		t.Fatal(err)
	}
	var of apiextensionsv1.CustomResourceDefinition
	if err := yaml.Unmarshal(raw, &of); err != nil {
		t.Fatal(err)
	}
	version := of.Spec.Versions[0]
	var internal apiextensions.JSONSchemaProps
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(version.Schema.OpenAPIV3Schema, &internal, nil); err != nil {
		t.Fatal(err)
	}
	structural, err := schema.NewStructural(&internal)
	if err != nil {
		t.Fatal(err)
	}
	object := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &object.Object); err != nil {
		t.Fatal(err)
	}
	defaulting.Default(object.Object, structural)
	convertor, err := tableconvertor.New(version.AdditionalPrinterColumns)
	if err != nil {
		t.Fatal(err)
	}
	table, err := convertor.ConvertToTable(t.Context(), object, &metav1.TableOptions{})
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]any{}
	for i, column := range table.ColumnDefinitions {
		found[column.Name] = table.Rows[0].Cells[i]
	}
	return found
}
