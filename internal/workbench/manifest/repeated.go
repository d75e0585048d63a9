package manifest

import (
	"regexp"
	"strconv"

	"go.yaml.in/yaml/v3"
	k8syaml "sigs.k8s.io/yaml"
)

// RepeatedKey is a key that occurs earlier in the same mapping.
type RepeatedKey struct {
	// Line is the line of the file, from 1.
	Line int
	// Text is the key for messages, in quotes if it is a string.
	Text string
}

// RepeatedKeys returns the repeated keys of the object's document. If the document is a list, it returns them only for the first item. It returns nil for an
// object of a cluster.
func (o Object) RepeatedKeys() (keys []RepeatedKey) {
	switch {
	case o.file == "" || o.item != "" && o.item != "0":
		return nil
	case !o.json:
		keys = repeatedInYAML(o.asDocument())
	default:
		if content := o.parseDocument(); content != nil {
			keys = repeatedInJSON(content)
		}
	}
	for i := range keys {
		keys[i].Line += o.line - 1
	}
	return keys
}

// repeatedInJSON returns the repeated keys below a node, with their lines in the document.
func repeatedInJSON(node *yaml.Node) (keys []RepeatedKey) {
	seen := map[string]bool{}
	for i, below := range node.Content {
		if node.Kind == yaml.MappingNode && i%2 == 0 {
			if seen[below.Value] {
				keys = append(keys, RepeatedKey{below.Line, strconv.Quote(below.Value)})
			}
			seen[below.Value] = true
			continue
		}
		keys = append(keys, repeatedInJSON(below)...)
	}
	return keys
}

// repeatedMessage matches the message of the YAML library about a repeated key, because the library has no type for this error. A test fails if the message
// changes.
var repeatedMessage = regexp.MustCompile(`line (\d+): key (.*) already set in map`)

// repeatedInYAML returns the repeated keys of a document, with the lines of their values in the document.
func repeatedInYAML(text []byte) (keys []RepeatedKey) {
	_, err := k8syaml.YAMLToJSONStrict(text)
	if err == nil {
		return nil
	}
	for _, found := range repeatedMessage.FindAllStringSubmatch(err.Error(), -1) {
		line, _ := strconv.Atoi(found[1]) // digits, by the expression
		keys = append(keys, RepeatedKey{line, found[2]})
	}
	return keys
}
