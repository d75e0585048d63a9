package cmdutil

import (
	"encoding/json"
	"fmt"

	"sigs.k8s.io/yaml"
)

// Print writes one object. Every YAML document begins with '---', so that several can be read back.
func (o *Printer) Print(object any) error { return o.PrintTitled(object, "") }

// PrintTitled is print with a comment before a YAML document. Several JSON objects follow each other, as jq reads them.
// sigs.k8s.io/yaml goes through JSON: fields have their JSON names, and keys are sorted, so that two runs are equal.
func (o *Printer) PrintTitled(object any, title string) error {
	if o.Output == "json" {
		encoder := json.NewEncoder(o.Out)
		encoder.SetIndent("", "  ")
		encoder.SetEscapeHTML(false) // documents hold XML, in which \u003c cannot be read
		return encoder.Encode(object)
	}
	raw, err := yaml.Marshal(object)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(o.Out, "---\n%s%s", title, raw)
	return err
}
