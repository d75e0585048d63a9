package manifest

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// A list of 3,000 VMs, as 'kubectl get -o yaml' prints it, has 16 MB, and takes some hundred times as much memory when it is parsed at once. So its items are
// cut out of the text, and parsed one by one.

// itemsKey matches the line of a list that is followed by its items.
var itemsKey = regexp.MustCompile(`(?m)^items:[ \t\r]*\n`)

// splitList returns the items of a list, each as a document of its own. It returns false if the document is no list, or is written in another form than by
// kubectl. Then the whole document must be parsed.
func (s source) splitList() ([]source, bool) {
	if s.json {
		return s.splitJSON()
	}
	found := itemsKey.FindIndex(s.text)
	if found == nil {
		return nil, false
	}
	items, end := s.cutItems(found[1])
	// The rest must be a list without its items. This also refuses a second key 'items'.
	head, err := yaml.YAMLToJSONStrict(bytes.Join([][]byte{s.text[:found[0]], s.text[end:], []byte("items: []\n")}, []byte("\n")))
	if err != nil {
		return nil, false
	}
	of, isList := listType(head)
	for i := range items {
		items[i].of = of
	}
	return items, isList && len(items) > 0
}

// cutItems returns the items that begin at an offset of the text, and the offset after the last one. An item begins with '- ', and its other lines are
// indented deeper, are empty or are comments. Text of a scalar cannot begin an item, because YAML requires that it is indented deeper, too.
func (s source) cutItems(start int) (items []source, end int) {
	rest := s.text[start:]
	dash := rest[:len(rest)-len(bytes.TrimLeft(rest, " "))]
	begin := append(bytes.Clone(dash), "- "...)
	line := s.line + bytes.Count(s.text[:start], []byte("\n"))
	for end = start; end < len(s.text); line++ {
		text, _, _ := bytes.Cut(s.text[end:], []byte("\n"))
		next := min(end+len(text)+1, len(s.text))
		content := bytes.TrimLeft(text, " ")
		switch {
		case bytes.HasPrefix(text, begin):
			items = append(items, source{file: s.file, text: s.text[end:end], line: line, Places: s.Places})
		case len(items) == 0:
			return nil, end
		case len(bytes.TrimSpace(content)) > 0 && content[0] != '#' && len(text)-len(content) <= len(dash):
			return items, end
		}
		last := &items[len(items)-1]
		last.text = last.text[:len(last.text)+next-end]
		end = next
	}
	return items, end
}

// splitJSON returns the items of a list in JSON.
func (s source) splitJSON() (items []source, ok bool) {
	decoder := jsontext.NewDecoder(bytes.NewBuffer(s.text), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if token, err := decoder.ReadToken(); err != nil || token.Kind() != '{' {
		return nil, false
	}
	line, counted, lists := s.line, 0, 0
	var head []string
	for decoder.PeekKind() == '"' {
		name, err := decoder.ReadToken()
		if err != nil {
			return nil, false
		}
		key := name.String()
		if !strings.EqualFold(key, "items") || decoder.PeekKind() != '[' {
			value, err := decoder.ReadValue()
			if err != nil || strings.EqualFold(key, "items") {
				return nil, false
			}
			if key == "kind" || key == "apiVersion" {
				head = append(head, `"`+key+`":`+string(value))
			}
			continue
		}
		lists++
		if _, err := decoder.ReadToken(); err != nil {
			return nil, false
		}
		for decoder.PeekKind() != ']' {
			value, err := decoder.ReadValue()
			if err != nil {
				return nil, false
			}
			at := int(decoder.InputOffset()) - len(value)
			line += bytes.Count(s.text[counted:at], []byte("\n"))
			counted = at
			items = append(items, source{file: s.file, text: s.text[at : at+len(value)], line: line, json: true, Places: s.Places})
		}
		if _, err := decoder.ReadToken(); err != nil {
			return nil, false
		}
	}
	of, isList := listType([]byte("{" + strings.Join(head, ",") + "}"))
	for i := range items {
		items[i].of = of
	}
	return items, isList && lists == 1 && len(items) > 0
}

// listType returns the kind of a list's items, which may leave out their kind; false if the JSON object is no list.
func listType(head []byte) (of metav1.TypeMeta, isList bool) {
	if json.Unmarshal(head, &of) != nil {
		return of, false
	}
	of.Kind, isList = strings.CutSuffix(of.Kind, "List")
	return of, isList
}

// asDocument returns the text of an item of a list in YAML as a document: with a space in the place of its dash.
func (s source) asDocument() []byte {
	if !s.isItem() {
		return s.text
	}
	text := bytes.Clone(s.text)
	text[bytes.IndexByte(text, '-')] = ' '
	return text
}

// isItem reports whether the text is an item of a list in YAML, which begins with a dash.
func (s source) isItem() bool {
	return !s.json && bytes.HasPrefix(bytes.TrimLeft(s.text, " "), []byte("- "))
}
