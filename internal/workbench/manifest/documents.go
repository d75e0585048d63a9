package manifest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	syntax "go.yaml.in/yaml/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"
)

// source is one YAML or JSON document of a file: an object or a list of objects.
type source struct {
	// file is the file that it was read from, or the directory of the kustomization that made it; empty for an object of a cluster.
	file string
	text []byte
	// line is the line of the file at which it starts, from 1.
	line int
	// json reports that the text is JSON, and must be parsed as JSON.
	json bool
	// of is the kind of the items if the text is an item of a list, which may leave out its kind.
	of metav1.TypeMeta
	// Places is shared by all sources that are read together.
	Places *Positions
}

// marker matches the marker that starts or ends a document of a YAML file. The rest of its line belongs to the next document.
var marker = regexp.MustCompile(`(?m)^(---|\.\.\.)([ \t\r]|$)`)

// kustomizeGroup is the API group of Kustomizations and Components.
const kustomizeGroup = "kustomize.config.k8s.io"

// splitDocuments splits a file into its documents.
func splitDocuments(file string, raw []byte, at *Positions) (all []source) {
	if all, ok := jsonDocuments(file, raw, at); ok {
		return all
	}
	start, line := 0, 1
	add := func(end int) {
		all = append(all, source{file: file, text: raw[start:end], line: line, Places: at})
		line += bytes.Count(raw[start:end], []byte("\n"))
	}
	for _, at := range marker.FindAllIndex(raw, -1) {
		add(at[0])
		start = at[0] + len("---")
	}
	add(len(raw))
	return all
}

// looksLikeJSON reports whether a text begins like a JSON object or list. YAML in flow style begins like that, too.
func looksLikeJSON(raw []byte) bool {
	trimmed := bytes.TrimSpace(raw)
	return len(trimmed) > 0 && (trimmed[0] == '{' || trimmed[0] == '[')
}

// jsonDocuments returns the documents of a file that consists of JSON objects; false if the file is not like that.
func jsonDocuments(file string, raw []byte, at *Positions) (all []source, ok bool) {
	if !looksLikeJSON(raw) {
		return nil, false
	}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	line, counted := 1, 0
	for {
		var text json.RawMessage
		err := decoder.Decode(&text)
		if errors.Is(err, io.EOF) {
			return all, true
		}
		if err != nil {
			return nil, false
		}
		// InputOffset is the end of the value, and a RawMessage has no space around it.
		start := int(decoder.InputOffset()) - len(text)
		line += bytes.Count(raw[counted:start], []byte("\n"))
		counted = start
		all = append(all, source{file: file, text: text, line: line, json: true, Places: at})
	}
}

// MaxObjectBytes is the maximal size of an object, because an API server accepts no larger body. A list in a file may be larger.
const MaxObjectBytes = 3 << 20

// kindLine matches the line of a YAML document that names its kind.
var kindLine = regexp.MustCompile(`(?m)^kind:[ \t]*["']?(\w+)`)

// isTooLarge reports whether a YAML document is one object of more than MaxObjectBytes. It does not parse the document, because parsed YAML takes some hundred
// times as much memory.
func (s source) isTooLarge() bool {
	if s.json || len(s.text) <= MaxObjectBytes {
		return false
	}
	if s.isItem() {
		return true
	}
	kind := kindLine.FindSubmatch(s.text)
	return kind != nil && !bytes.HasSuffix(kind[1], []byte("List"))
}

// tooLargeObject returns the entry for an object of more than MaxObjectBytes.
func (s source) tooLargeObject() Object {
	return unreadableObject(s.file, fmt.Errorf("%s:%d: the object has more than %d MiB, which no API server accepts", s.file, s.line, MaxObjectBytes>>20))
}

// decodeObjects returns the object of a document, or the items if it is a list. A document that has only comments has no objects.
func (s source) decodeObjects() (all []Object) {
	items, isList := s.splitList()
	if !isList {
		return s.decodeDocument()
	}
	for _, item := range items {
		one := item.decodeDocument()
		if len(s.text) <= MaxObjectBytes && slices.ContainsFunc(one, func(o Object) bool { return o.Fault != nil }) {
			return s.decodeDocument() // the item may refer to an anchor of another one. A longer list would take too much memory
		}
		all = append(all, one...)
	}
	return all
}

// decodeDocument returns the object of a document, or the items if it is a list, which is parsed at once.
func (s source) decodeDocument() (all []Object) {
	if s.isTooLarge() {
		return []Object{s.tooLargeObject()}
	}
	raw := s.text
	if !s.json {
		var err error
		if raw, err = yaml.YAMLToJSON(s.asDocument()); err != nil {
			return []Object{unreadableObject(s.file, s.withLine(err))}
		}
	}
	if string(raw) == "null" {
		return nil
	}
	var list struct {
		metav1.TypeMeta
		Items []json.RawMessage
	}
	if json.Unmarshal(raw, &list) != nil || list.Items == nil || !strings.HasSuffix(list.Kind, "List") {
		return []Object{s.decodeObject(raw, "", s.of)}
	}
	of := metav1.TypeMeta{Kind: strings.TrimSuffix(list.Kind, "List"), APIVersion: list.APIVersion}
	for i, item := range list.Items {
		all = append(all, s.decodeObject(item, strconv.Itoa(i), of))
	}
	return all
}

// Faults of documents that are not meant for Kubernetes.
var (
	errNoObject = errors.New("this is a list or a single value, not an object")
	errNoKind   = errors.New("this is not an object of Kubernetes: it has no kind")
)

// decodeObject decodes one object. item is its index if the document is a list, and otherwise empty. of is the kind of the list's items, which
// may leave out their kind.
func (s source) decodeObject(raw []byte, item string, of metav1.TypeMeta) Object {
	if len(raw) > MaxObjectBytes {
		return s.tooLargeObject()
	}
	one := Object{Unstructured: &unstructured.Unstructured{}, source: s, item: item}
	err := utiljson.Unmarshal(raw, &one.Object)
	if err == nil && one.GetKind() == "" && of.Kind != "" {
		one.SetKind(of.Kind)
		one.SetAPIVersion(of.APIVersion)
	}
	switch {
	case err != nil && raw[0] == '{':
	case err != nil || one.Object == nil:
		err = errNoObject
	case one.GetKind() == "":
		err = errNoKind
	case one.GetAPIVersion() == "":
		err = errors.New("this is not an object of Kubernetes: it has no apiVersion")
	case one.GroupVersionKind().Group == kustomizeGroup:
		err = ErrKustomization
	}
	if err != nil {
		at, _ := one.Find("")
		return unreadableObject(s.file, fmt.Errorf("%s:%d: %w", s.file, at.Number, err))
	}
	return one
}

// withLine adds the line of the file to an error about invalid YAML, because kubectl's decoder does not name it. A text that begins like JSON is probably
// invalid JSON, so its error begins with that.
func (s source) withLine(given error) error {
	if looksLikeJSON(s.text) {
		return fmt.Errorf("%w; nor is it YAML: %w", s.notJSON(), given)
	}
	padded := append(bytes.Repeat([]byte("\n"), s.line-1), s.asDocument()...)
	if err := syntax.Unmarshal(padded, new(syntax.Node)); err != nil {
		return err
	}
	return fmt.Errorf("%s:%d: %w", s.file, s.line, given)
}
