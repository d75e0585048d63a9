package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"
)

// crds are where the schemas are, seen from the root of the repository.
const crds = "manifests/crds"

// schema of a CRD, as it is written. Strict decoding finds what the API server finds by it, unknown fields and wrong types,
// but for fields that are required: Go has no such thing.
type schema map[string]any

// readSchema is the schema of the first version of a kind's CRD.
func readSchema(plural string) (schema, error) {
	raw, err := os.ReadFile(filepath.Join(crds, plural+".yaml"))
	if err != nil {
		return nil, fmt.Errorf("run it in the root of the repository: %w", err)
	}
	var crd struct {
		Spec struct {
			Versions []struct {
				Schema struct{ OpenAPIV3Schema schema }
			}
		}
	}
	if err := yaml.Unmarshal(raw, &crd); err != nil || len(crd.Spec.Versions) == 0 {
		return nil, fmt.Errorf("%s: no version: %w", plural, err)
	}
	return crd.Spec.Versions[0].Schema.OpenAPIV3Schema, nil
}

// required are the fields that an object lacks although its schema requires them.
func (s schema) required(raw json.RawMessage) field.ErrorList {
	var object any
	if err := json.Unmarshal(raw, &object); err != nil {
		return nil // strict decoding says so
	}
	return s.walk(object, nil)
}

func (s schema) walk(value any, path *field.Path) (errs field.ErrorList) {
	switch value := value.(type) {
	case map[string]any:
		names, _ := s["required"].([]any)
		for _, name := range names {
			if name, _ := name.(string); value[name] == nil {
				errs = append(errs, field.Required(path.Child(name), ""))
			}
		}
		properties, _ := s["properties"].(map[string]any)
		for _, name := range slices.Sorted(maps.Keys(properties)) {
			if below, _ := properties[name].(map[string]any); value[name] != nil {
				errs = append(errs, schema(below).walk(value[name], path.Child(name))...)
			}
		}
	case []any:
		below, _ := s["items"].(map[string]any)
		for i, item := range value {
			errs = append(errs, schema(below).walk(item, path.Index(i))...)
		}
	}
	return errs
}
