package manifest

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/kilnvm/kiln/pkg/fieldpath"
	"go.yaml.in/yaml/v3"
)

// Line is one line of a file.
type Line struct {
	File string
	// Number counts from 1. It is 0 for an object of a kustomization, because no file contains the object that is judged.
	Number int
	Text   string
}

// maxLineRunes is how many characters of a line String quotes. A manifest in JSON may be one long line, which each cause would repeat.
const maxLineRunes = 200

// String returns the position and the text of the line, cut after maxLineRunes characters.
func (l Line) String() string {
	if l.Number == 0 {
		return "built from the kustomization " + l.File
	}
	text := l.Text
	if runes := []rune(text[:min(len(text), utf8.UTFMax*maxLineRunes)]); len(runes) > maxLineRunes {
		text = string(runes[:maxLineRunes]) + "…"
	}
	return fmt.Sprintf("%s:%d: %s", l.File, l.Number, text)
}

// Find returns the line of a field in the file that the object was read from. If the field is missing there, it returns the line of the nearest
// parent. It returns false for an object of a cluster.
func (o Object) Find(path string) (Line, bool) {
	if o.built {
		return Line{File: o.file}, true
	}
	if o.file == "" {
		return Line{}, false
	}
	in := o.Places.documentOf(o.source)
	number := o.lineOf(in.content, path)
	if number == 0 {
		return Line{}, false
	}
	return Line{o.file, o.line + number - 1, strings.TrimSpace(string(in.lines[number-1]))}, true
}

// LineInFile returns the line of a field in its file, or of its nearest parent; 0 for an object of a cluster.
func (o Object) LineInFile(path string) int {
	if at, found := o.Find(path); found {
		return at.Number
	}
	return o.line
}

// Positions keeps the document in which a field was found last. Causes are sorted by object, so a document is parsed only once for all causes of its objects.
// Only one document is kept, because thousands may have causes, and a parsed document takes many times its size.
type Positions struct {
	mutex sync.Mutex
	last  document
	// Parses counts the documents that were parsed.
	Parses int
}

// document is a parsed source.
type document struct {
	text []byte
	// content is nil if the text is empty or not YAML.
	content *yaml.Node
	lines   [][]byte
}

// documentOf returns the parsed document of a source.
func (p *Positions) documentOf(s source) document {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if len(s.text) == 0 || len(s.text) == len(p.last.text) && &s.text[0] == &p.last.text[0] {
		return p.last
	}
	p.Parses++
	p.last = document{text: s.text, content: s.parseDocument(), lines: bytes.Split(s.text, []byte("\n"))}
	return p.last
}

// parseDocument returns the document's content; nil if it is empty or not YAML.
func (s source) parseDocument() *yaml.Node {
	if s.json {
		content, _ := parseJSON(s.text) // it was decoded before
		return content
	}
	var root yaml.Node
	if yaml.Unmarshal(s.asDocument(), &root) != nil || len(root.Content) == 0 {
		return nil
	}
	return root.Content[0]
}

// lineOf returns the line of a field in the object's document, from 1; 0 if the document does not have the object.
func (o Object) lineOf(document *yaml.Node, path string) int {
	node := document
	if o.item != "" {
		_, items := childNode(node, "items")
		_, node = childNode(items, o.item)
	}
	if node == nil {
		return 0
	}
	return lineOfPath(node, path)
}

// lineOfPath returns the line, from 1, of the longest prefix of a path that the node has.
func lineOfPath(node *yaml.Node, path string) int {
	number := node.Line
	for _, step := range fieldpath.Parse(path) {
		key, value := childNode(node, step.Text)
		if value == nil {
			break
		}
		number, node = key.Line, value
	}
	return number
}

// childNode returns the value of an entry of a mapping or sequence, and the node at which the entry starts; nil if the entry does not exist.
func childNode(node *yaml.Node, name string) (key, value *yaml.Node) {
	if node == nil {
		return nil, nil
	}
	if node.Kind == yaml.AliasNode {
		node = node.Alias
	}
	switch node.Kind {
	case yaml.MappingNode:
		for i := len(node.Content) - 2; i >= 0; i -= 2 { // the last one of repeated keys counts
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
