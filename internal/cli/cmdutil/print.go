package cmdutil

import (
	"encoding/json"
	"fmt"
	"strings"

	"sigs.k8s.io/yaml"
)

// Print prints one object as JSON, or as a YAML document. Every YAML document begins with '---', because there may be several.
func (o *Printer) Print(object any) error { return o.PrintTitled(object, "") }

// PrintTitled is Print with a comment at the beginning of a YAML document; JSON has no comments. Keys in YAML have the names of JSON, and are sorted.
func (o *Printer) PrintTitled(object any, title string) error {
	if o.template != nil {
		return o.printSelected(object)
	}
	if o.Output == "json" {
		encoder := json.NewEncoder(o.Out)
		encoder.SetIndent("", "  ")
		encoder.SetEscapeHTML(false) // nobody can read XML with \u003c
		return encoder.Encode(object)
	}
	raw, err := yaml.Marshal(object)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(o.Out, "---\n%s%s", title, raw)
	return err
}

// printSelected prints what the template of -o jsonpath selects in an object, on a line of its own. It replaces control characters, as text output does, except
// tabs, which templates put between values.
func (o *Printer) printSelected(object any) error {
	raw, err := json.Marshal(object)
	if err != nil {
		return err
	}
	var plain any
	if err := json.Unmarshal(raw, &plain); err != nil {
		return err
	}
	var selected strings.Builder
	if err := o.template.Execute(&selected, plain); err != nil {
		return err
	}
	lines := strings.Split(strings.TrimSuffix(selected.String(), "\n"), "\n")
	for i, line := range lines {
		lines[i] = PrintableCells(strings.Split(line, "\t")...)
	}
	_, err = fmt.Fprintln(o.Out, strings.Join(lines, "\n"))
	return err
}
