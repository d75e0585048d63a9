package manifest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
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
	// file it was read from, or the directory of the kustomization that made it; empty when it came from a cluster.
	file string
	text []byte
	// line of the file at which it starts, from 1.
	line int
	// json says that the text is JSON, and read as JSON.
	json bool
	// Places are those of all sources that are read together.
	Places *Positions
}

// marker starts or ends a document of a YAML file; the rest of its line belongs to the next document.
var marker = regexp.MustCompile(`(?m)^(---|\.\.\.)([ \t\r]|$)`)

// kustomizeGroup is that of Kustomizations and Components.
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

// looksLikeJSON reports whether a text begins as JSON objects and lists do. Flows of YAML do, too.
func looksLikeJSON(raw []byte) bool {
	trimmed := bytes.TrimSpace(raw)
	return len(trimmed) > 0 && (trimmed[0] == '{' || trimmed[0] == '[')
}

// jsonDocuments returns the documents of a file of JSON objects, one after the other; false if it is no such file.
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

// MaxObjectBytes bounds one object, in bytes. An API server takes no larger body. A list in a file may have thousands of objects.
const MaxObjectBytes = 3 << 20

// kindLine is the line of a YAML document that names its kind.
var kindLine = regexp.MustCompile(`(?m)^kind:[ \t]*["']?(\w+)`)

// isTooLarge reports whether a YAML document is one object beyond mostOfObject. It looks at the text, because YAML takes some hundred times its bytes when it
// is parsed.
func (s source) isTooLarge() bool {
	if s.json || len(s.text) <= MaxObjectBytes {
		return false
	}
	kind := kindLine.FindSubmatch(s.text)
	return kind != nil && !bytes.HasSuffix(kind[1], []byte("List"))
}

// tooLargeObject is the entry of an object beyond mostOfObject.
func (s source) tooLargeObject() Object {
	return unreadableObject(s.file, fmt.Errorf("%s:%d: the object has more than %d MiB, which no API server takes", s.file, s.line, MaxObjectBytes>>20))
}

// objects decodes a document. A list gives its items; a document of comments gives none.
func (s source) objects() (all []Object) {
	if s.isTooLarge() {
		return []Object{s.tooLargeObject()}
	}
	raw := s.text
	if !s.json {
		var err error
		if raw, err = yaml.YAMLToJSON(s.text); err != nil {
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
		return []Object{s.object(raw, "", metav1.TypeMeta{})}
	}
	for i, item := range list.Items {
		all = append(all, s.object(item, strconv.Itoa(i), metav1.TypeMeta{Kind: strings.TrimSuffix(list.Kind, "List"), APIVersion: list.APIVersion}))
	}
	return all
}

// object decodes one object. item is its index if the document is a list; empty if not. of is the kind of the list's items, which
// need not repeat it.
func (s source) object(raw []byte, item string, of metav1.TypeMeta) Object {
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
		err = errors.New("this is a list or a single value, and no object")
	case one.GetKind() == "":
		err = errors.New("this is no object of Kubernetes: it has no kind")
	case one.GetAPIVersion() == "":
		err = errors.New("this is no object of Kubernetes: it has no apiVersion")
	case one.GroupVersionKind().Group == kustomizeGroup:
		err = ErrKustomization
	}
	if err != nil {
		at, _ := one.Find("")
		return unreadableObject(s.file, fmt.Errorf("%s:%d: %w", s.file, at.Number, err))
	}
	return one
}

// withLine returns the error of a text that is no YAML with the line of the file, which kubectl's decoder does not name. A text that begins as JSON is no JSON
// either, and most probably meant to be: the error begins with that.
func (s source) withLine(given error) error {
	if looksLikeJSON(s.text) {
		return fmt.Errorf("%w; and it is no YAML: %w", s.notJSON(), given)
	}
	padded := append(bytes.Repeat([]byte("\n"), s.line-1), s.text...)
	if err := syntax.Unmarshal(padded, new(syntax.Node)); err != nil {
		return err
	}
	return fmt.Errorf("%s:%d: %w", s.file, s.line, given)
}
