//go:build kubevirt

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	extv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"kubevirt.io/kubevirt/pkg/virt-operator/resource/generate/components"
)

// definitions makes the CustomResourceDefinitions of the kinds that Kiln admits, as virt-operator installs them.
var definitions = []func() (*extv1.CustomResourceDefinition, error){
	components.NewVirtualMachineCrd, components.NewVirtualMachineInstanceCrd, components.NewPresetCrd,
	components.NewVirtualMachineInstancetypeCrd, components.NewVirtualMachinePreferenceCrd,
}

// writeDefinitions writes the definitions as a list.
func writeDefinitions(out io.Writer) error {
	var list []*extv1.CustomResourceDefinition
	for _, make := range definitions {
		definition, err := make()
		if err != nil {
			return err
		}
		list = append(list, definition)
	}
	return json.NewEncoder(out).Encode(list)
}

// schema of a kind.
type schema struct{ *structural.Structural }

// readSchemas returns the schemas of version v1 of VMs and VMIs, by the plural.
func readSchemas() (map[string]schema, error) {
	schemas := map[string]schema{}
	for _, make := range definitions[:2] {
		definition, err := make()
		if err != nil {
			return nil, err
		}
		i := slices.IndexFunc(definition.Spec.Versions, func(v extv1.CustomResourceDefinitionVersion) bool { return v.Name == "v1" })
		if i < 0 {
			return nil, fmt.Errorf("'%s' has no version v1", definition.Name)
		}
		var internal apiextensions.JSONSchemaProps
		given := definition.Spec.Versions[i].Schema.OpenAPIV3Schema
		if err := extv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(given, &internal, nil); err != nil {
			return nil, err
		}
		fields, err := structural.NewStructural(&internal)
		if err != nil {
			return nil, err
		}
		schemas[definition.Spec.Names.Plural] = schema{fields}
	}
	return schemas, nil
}

// prune returns an object without the fields that the schema does not know, as the API server stores it, and the paths of these. What is no object stays.
func (s schema) prune(raw []byte) ([]byte, []string, error) {
	var object map[string]any
	if json.Unmarshal(raw, &object) != nil {
		return raw, nil, nil
	}
	pruned := pruning.PruneWithOptions(object, s.Structural, true, structural.UnknownFieldPathOptions{TrackUnknownFieldPaths: true})
	if len(pruned) == 0 {
		return raw, nil, nil
	}
	slices.Sort(pruned)
	raw, err := json.Marshal(object)
	return raw, pruned, err
}
