package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// texts are the files that objects came from, by the names that are shown; the content of the standard input is put there
// while it is read, files are read again when a line of theirs is to be shown.
type texts map[string][]byte

// line is one line of a file, for people.
type line struct {
	file   string
	number int
	text   string
}

func (l line) String() string { return fmt.Sprintf("%s:%d: %s", l.file, l.number, l.text) }

// find is the line of a field in the file that the object came from, or that of its nearest parent which is written there: a
// missing field has no line. It tells false when there is no such file, as for objects of a cluster.
func (t texts) find(file string, object *unstructured.Unstructured, path string) (line, bool) {
	raw, found := t[file]
	if !found {
		var err error
		if raw, err = os.ReadFile(file); err != nil {
			return line{}, false
		}
		t[file] = raw
	}
	documents := yaml.NewDecoder(bytes.NewReader(raw))
	for {
		var document yaml.Node
		if documents.Decode(&document) != nil || len(document.Content) == 0 {
			return line{}, false
		}
		if root := written(document.Content[0], object); root != nil {
			number := descend(root, path)
			return line{file, number, strings.TrimSpace(string(bytes.Split(raw, []byte("\n"))[number-1]))}, true
		}
	}
}

// written is the node of an object: a document, or an item of a list in it.
func written(node *yaml.Node, object *unstructured.Unstructured) *yaml.Node {
	if _, items := child(node, "items"); items != nil {
		for _, item := range items.Content {
			if found := written(item, object); found != nil {
				return found
			}
		}
	}
	var head struct {
		Kind     string
		Metadata struct{ Name, Namespace string }
	}
	// What cannot be read here has been refused before; a namespace may have come from the command line.
	if node.Decode(&head) != nil || head.Kind != object.GetKind() || head.Metadata.Name != object.GetName() ||
		head.Metadata.Namespace != "" && head.Metadata.Namespace != object.GetNamespace() {
		return nil
	}
	return node
}

// step is one part of a field path: a name, or an index or key in brackets.
var step = regexp.MustCompile(`[^.\[\]]+|\[[^\]]*\]`)

// descend follows a path as far as it is written and gives the line where it ends.
func descend(node *yaml.Node, path string) int {
	number := node.Line
	for _, name := range step.FindAllString(path, -1) {
		key, value := child(node, strings.Trim(name, "[]"))
		if value == nil {
			break
		}
		number, node = key.Line, value
	}
	return number
}

// child is the entry of a mapping or sequence: its value, and the node at which it starts.
func child(node *yaml.Node, name string) (key, value *yaml.Node) {
	if node.Kind == yaml.AliasNode {
		node = node.Alias
	}
	switch node.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(node.Content); i += 2 {
			if node.Content[i].Value == name {
				return node.Content[i], node.Content[i+1]
			}
		}
	case yaml.SequenceNode:
		if i, err := strconv.Atoi(name); err == nil && i >= 0 && i < len(node.Content) {
			return node.Content[i], node.Content[i]
		}
	}
	return nil, nil
}

// parsing is how kubectl's loader says that a file is no YAML; it counts lines from the start of the document.
var parsing = regexp.MustCompile(`^error parsing (.*?): `)

// locate gives the error of a loader the line of the file, where the file is no YAML.
func (t texts) locate(err error) error {
	named := parsing.FindStringSubmatch(err.Error())
	if named == nil {
		return err
	}
	raw, found := t[named[1]]
	if !found {
		if raw, _ = os.ReadFile(named[1]); raw == nil {
			return err
		}
	}
	documents := yaml.NewDecoder(bytes.NewReader(raw))
	for {
		var document yaml.Node
		if syntax := documents.Decode(&document); errors.Is(syntax, io.EOF) {
			return err // YAML, but no object
		} else if syntax != nil {
			return fmt.Errorf("%s: %w", named[1], syntax)
		}
	}
}
