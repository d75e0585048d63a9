package main

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// fieldsMark is the line below which the documentation of HostProfiles is generated, to its end.
const fieldsMark = "<!-- fields: generated, do not edit -->\n"

// schema is what the table reads of an OpenAPI schema.
type schema struct {
	Description string            `json:"description"`
	Enum        []any             `json:"enum"`
	Properties  map[string]schema `json:"properties"`
	Items       *schema           `json:"items"`
}

// writeFields writes the table of all fields of a HostProfile's spec below the mark of FILE, from the definition of the kind.
func writeFields(definition, file string) error {
	raw, err := os.ReadFile(definition)
	if err != nil {
		return err
	}
	var kind struct {
		Spec struct {
			Versions []struct {
				Schema struct{ OpenAPIV3Schema schema }
			}
		}
	}
	if err := yaml.Unmarshal(raw, &kind); err != nil {
		return err
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	head, _, found := strings.Cut(string(text), fieldsMark)
	if !found || len(kind.Spec.Versions) != 1 {
		return fmt.Errorf("%s has no line '%s', or %s not one version", file, strings.TrimSpace(fieldsMark), definition)
	}
	var table strings.Builder
	table.WriteString(head + fieldsMark + "\n| field | values | meaning |\n|---|---|---|\n")
	rows(&table, kind.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"], "")
	return os.WriteFile(file, []byte(table.String()), 0o644)
}

// rows writes the fields below a schema, by name. Selectors are Kubernetes' own.
func rows(table *strings.Builder, of schema, at string) {
	for _, name := range slices.Sorted(maps.Keys(of.Properties)) {
		field := of.Properties[name]
		var values []string
		for _, value := range field.Enum {
			values = append(values, fmt.Sprintf("`%v`", value))
		}
		meaning := strings.Join(strings.Fields(field.Description), " ")
		fmt.Fprintf(table, "| `%s` | %s | %s |\n", at+name, strings.Join(values, " "), strings.ReplaceAll(meaning, "|", `\|`))
		if strings.HasSuffix(name, "Selector") {
			continue
		}
		rows(table, field, at+name+".")
		if field.Items != nil {
			rows(table, *field.Items, at+name+"[].")
		}
	}
}
