package cmdutil

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"
)

// A run with -o json prints one JSON document, which has apiVersion and kind. docs/project/adr/0029-one-json-document.md has the reasons.

// AnnotationAnswer is the annotation of a command with a line for each kind of its documents, and the fields of the kind, for the reference.
const AnnotationAnswer = "answer"

// Answers names the kind of the documents that a command prints, by the Go type that Print gets. A slice is the items of a document.
// Print refuses a type without a kind, so that no document is missing in the reference.
func (o *Printer) Answers(cmd *cobra.Command, kind string, of any) {
	o.kinds[reflect.TypeOf(of)] = kind
	if cmd.Annotations == nil {
		cmd.Annotations = map[string]string{}
	}
	if before := cmd.Annotations[AnnotationAnswer]; before != "" {
		cmd.Annotations[AnnotationAnswer] = before + "\n"
	}
	cmd.Annotations[AnnotationAnswer] += kind + " " + shape(reflect.TypeOf(of))
}

// List calls run. With -o json it prints the documents of run as the items of one List of Kubernetes, also if there is only one, so that the same path finds
// the items of every run. YAML needs no list, because a stream of documents is one file. If run fails before it prints anything, nothing is printed.
func (o *Printer) List(run func() error) error {
	if !o.Documents || o.Output != "json" {
		return run()
	}
	o.items = []json.RawMessage{}
	err := run()
	items := o.items
	o.items = nil
	if len(items) == 0 && err != nil && !Answered(err) {
		return err
	}
	list, failed := encoded(struct {
		APIVersion string            `json:"apiVersion"`
		Kind       string            `json:"kind"`
		Items      []json.RawMessage `json:"items"`
	}{"v1", "List", items})
	if failed == nil {
		failed = o.printDocument(list, "")
	}
	return Worse(failed, err)
}

// Print prints an answer as a document, with the kind that Answers named.
func (o *Printer) Print(answer any) error {
	kind, known := o.kinds[reflect.TypeOf(answer)]
	if !known {
		return fmt.Errorf("the command names no kind for %T", answer)
	}
	raw, err := encoded(answer)
	if err != nil {
		return err
	}
	if reflect.TypeOf(answer).Kind() == reflect.Slice {
		if bytes.Equal(raw, []byte("null")) { // jq's iteration fails on null
			raw = []byte("[]")
		}
		raw = append(append([]byte(`{"items":`), raw...), '}')
	}
	// The fields of Go types have an order, which maps do not keep.
	head := fmt.Sprintf(`{"apiVersion":%q,"kind":%q`, v1alpha1.CommandLineVersion, kind)
	if fields := bytes.TrimPrefix(raw, []byte("{")); !bytes.Equal(fields, []byte("}")) {
		head += ","
	}
	return o.printDocument(append([]byte(head), raw[1:]...), "")
}

// PrintManifest prints an object of Kubernetes, which has apiVersion and kind of its own. title is a comment at the beginning of a YAML document; JSON has no
// comments.
func (o *Printer) PrintManifest(object any, title string) error {
	raw, err := encoded(object)
	if err != nil {
		return err
	}
	return o.printDocument(raw, title)
}

// printDocument prints JSON in the format of -o, or adds it to the list of the run. Every YAML document begins with '---', because there may be several. Keys
// in YAML have the names of JSON, and are sorted.
func (o *Printer) printDocument(raw []byte, title string) (err error) {
	switch {
	case o.items != nil:
		o.items = append(o.items, raw)
	case o.template != nil:
		err = o.printSelected(raw)
	case o.Output == "json":
		var indented bytes.Buffer
		if err = json.Indent(&indented, raw, "", "  "); err == nil {
			indented.WriteByte('\n')
			_, err = indented.WriteTo(o.Out)
		}
	default:
		if raw, err = yaml.JSONToYAML(raw); err == nil {
			_, err = fmt.Fprintf(o.Out, "---\n%s%s", title, raw)
		}
	}
	return err
}

// encoded returns the JSON of an object. It does not escape characters of HTML: nobody can read XML with \u003c.
func encoded(object any) ([]byte, error) {
	var raw bytes.Buffer
	encoder := json.NewEncoder(&raw)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(object)
	return bytes.TrimSpace(raw.Bytes()), err
}

// printSelected prints what the template of -o jsonpath selects in a document, on a line of its own. It replaces control characters, as text output does,
// except tabs, which templates put between values.
func (o *Printer) printSelected(raw []byte) error {
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
	_, err := fmt.Fprintln(o.Out, strings.Join(lines, "\n"))
	return err
}
