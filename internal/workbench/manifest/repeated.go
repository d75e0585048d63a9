package manifest

import (
	"regexp"
	"strconv"

	"go.yaml.in/yaml/v3"
	k8syaml "sigs.k8s.io/yaml"
)

// RepeatedKey is a key that an earlier line of the same mapping has too.
type RepeatedKey struct {
	// Line is the line of the file, from 1.
	Line int
	// Text is the key as messages show it: a text is quoted.
	Text string
}

// RepeatedKeys returns the keys that stand twice in the object's document. Those of a list are returned for its first item. An object of a cluster has none.
func (o Object) RepeatedKeys() (keys []RepeatedKey) {
	switch {
	case o.file == "" || o.item != "" && o.item != "0":
		return nil
	case !o.json:
		keys = repeatedInYAML(o.text)
	default:
		if content := o.parse(); content != nil {
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

// repeatedMessage matches the message of the YAML library about a repeated key. The library has no type for it; a test notices another message.
var repeatedMessage = regexp.MustCompile(`line (\d+): key (.*) already set in map`)

// repeatedInYAML returns the repeated keys of a document, with their lines in the document. A line is that of the value.
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
