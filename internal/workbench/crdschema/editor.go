package crdschema

import (
	"encoding/json"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/kilnvm/kiln/manifests/crds"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// EditorSchema returns one JSON Schema (draft 7) for manifests in an editor. It describes all kinds that Kiln knows, and accepts objects of other kinds. A
// field that the API does not have is a mistake, except where a definition preserves unknown fields. instancetypes and preferences are the names that VMs may
// refer to; without names, any name is accepted.
func EditorSchema(instancetypes, preferences []string) (map[string]any, error) {
	definitions, choices := map[string]any{}, []any{}
	err := fs.WalkDir(crds.Files, ".", func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || path.Ext(file) != ".yaml" {
			return err
		}
		raw, err := crds.Files.ReadFile(file)
		if err != nil {
			return err
		}
		var crd apiextensionsv1.CustomResourceDefinition
		if err := yaml.Unmarshal(raw, &crd); err != nil {
			return err
		}
		for _, version := range crd.Spec.Versions {
			if !version.Served {
				continue
			}
			fields, err := editorFields(version.Schema.OpenAPIV3Schema)
			if err != nil {
				return err
			}
			limitNames(fields, "instancetype", instancetypes)
			limitNames(fields, "preference", preferences)
			name := strings.Join([]string{crd.Spec.Names.Kind, crd.Spec.Group, version.Name}, ".")
			definitions[name] = fields
			choices = append(choices, map[string]any{
				"if": map[string]any{"required": []string{"apiVersion", "kind"}, "properties": map[string]any{
					"apiVersion": map[string]any{"const": crd.Spec.Group + "/" + version.Name}, "kind": map[string]any{"const": crd.Spec.Names.Kind}}},
				"then": map[string]any{"$ref": "#/definitions/" + name},
			})
		}
		return nil
	})
	return map[string]any{"$schema": "http://json-schema.org/draft-07/schema#", "type": "object", "allOf": choices, "definitions": definitions}, err
}

// editorFields converts the schema of a CRD to JSON Schema.
func editorFields(of *apiextensionsv1.JSONSchemaProps) (map[string]any, error) {
	raw, err := json.Marshal(of)
	if err != nil {
		return nil, err
	}
	var fields map[string]any
	if err := json.Unmarshal(raw, &fields); err != nil {
		return nil, err
	}
	convertFields(fields)
	// A definition has no schema of metadata: the API server knows it.
	if properties, is := fields["properties"].(map[string]any); is {
		properties["metadata"] = metadata()
	}
	return fields, nil
}

// metadata returns the fields of metadata that people write.
func metadata() map[string]any {
	text := map[string]any{"type": "string"}
	texts := map[string]any{"type": "object", "additionalProperties": text}
	return map[string]any{"type": "object", "properties": map[string]any{
		"name": text, "generateName": text, "namespace": text, "labels": texts, "annotations": texts,
		"finalizers": map[string]any{"type": "array", "items": text},
	}}
}

// convertFields replaces what only Kubernetes understands in a schema and in all schemas below it.
func convertFields(schema map[string]any) {
	if schema["x-kubernetes-int-or-string"] == true {
		delete(schema, "anyOf")
		schema["type"] = []string{"integer", "string"}
	}
	if kind, is := schema["type"].(string); is && schema["nullable"] == true {
		schema["type"] = []string{kind, "null"}
	}
	open := schema["x-kubernetes-preserve-unknown-fields"] == true || schema["additionalProperties"] != nil
	for _, key := range slices.Collect(maps.Keys(schema)) {
		if key == "nullable" || strings.HasPrefix(key, "x-kubernetes-") {
			delete(schema, key)
		}
	}
	if properties, is := schema["properties"].(map[string]any); is {
		for _, name := range slices.Collect(maps.Keys(properties)) {
			if below, is := properties[name].(map[string]any); is {
				convertFields(below)
			}
		}
		if !open {
			schema["additionalProperties"] = false
		}
	}
	for _, key := range []string{"items", "additionalProperties"} {
		if below, is := schema[key].(map[string]any); is {
			convertFields(below)
		}
	}
}

// limitNames allows only these names in the matcher of a VM's spec.
func limitNames(fields map[string]any, matcher string, names []string) {
	at := fields
	for _, name := range []string{"spec", matcher, "name"} {
		properties, _ := at["properties"].(map[string]any)
		below, is := properties[name].(map[string]any)
		if !is {
			return
		}
		at = below
	}
	if len(names) > 0 {
		at["enum"] = names
	}
}
