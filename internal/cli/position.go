package cli

import (
	"bytes"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// line is one line of a file, for people.
type line struct {
	file string
	// number is 0 for what a kustomization made: none of its files holds the object as it is judged.
	number int
	text   string
}

func (l line) String() string {
	if l.number == 0 {
		return "built from the kustomization " + l.file
	}
	return fmt.Sprintf("%s:%d: %s", l.file, l.number, l.text)
}

// find is the line of a field in the file that the object came from, or that of its nearest parent which is written there: a
// missing field has no line. It tells false when there is no such file, as for objects of a cluster.
func (o object) find(path string) (line, bool) {
	if o.built {
		return line{file: o.file}, true
	}
	var root yaml.Node
	if o.file == "" || yaml.Unmarshal(o.text, &root) != nil || len(root.Content) == 0 {
		return line{}, false
	}
	node := root.Content[0]
	if o.item != "" {
		_, items := child(node, "items")
		if _, node = child(items, o.item); node == nil {
			return line{}, false
		}
	}
	number := descend(node, path)
	return line{o.file, o.line + number - 1, strings.TrimSpace(string(bytes.Split(o.text, []byte("\n"))[number-1]))}, true
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
	if node == nil {
		return nil, nil
	}
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
