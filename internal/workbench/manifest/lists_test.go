package manifest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// listText is a list as kubectl prints it: the key kind follows the items.
const listText = `apiVersion: v1
items:
- apiVersion: kubevirt.io/v1
  kind: VirtualMachine
  metadata:
    name: one
  spec:
    script: |
      - kind: Pod
      items:
      - a
- apiVersion: kubevirt.io/v1
  # a comment
# another one
  kind: VirtualMachine

  metadata:
    name: two
kind: List
metadata:
  resourceVersion: ""
`

const listInJSON = `{"kind": "List", "items": [
{"kind": "A", "apiVersion": "v1"},
{"kind": "B", "apiVersion": "v1"}]}`

// TestItemsOfALongList: a list is read the same, with the same lines, whether its items are cut out of the text or the whole list is parsed.
func TestItemsOfALongList(t *testing.T) {
	t.Parallel()
	for why, test := range map[string]struct {
		text string
		cut  int
	}{
		"as kubectl prints it":             {listText, 2},
		"with CRLF":                        {strings.ReplaceAll(listText, "\n", "\r\n"), 2},
		"with indented items":              {strings.NewReplacer("\n- ", "\n  - ", "\n  ", "\n    ", "\n# ", "\n    # ").Replace(listText), 2},
		"items without a kind":             {"kind: VirtualMachineList\napiVersion: kubevirt.io/v1\nitems:\n- metadata: {name: one}\n- metadata: {name: two}\n", 2},
		"an anchor of another item":        {"kind: List\nitems:\n- &a {kind: A, apiVersion: v1, metadata: {name: one}}\n- *a\n", 2},
		"a text that goes on at a dash":    {"kind: List\nitems:\n- {kind: A, apiVersion: v1}\n- kind: B\n  apiVersion: v1\n  a: \"b\n- c\"\n", 3},
		"items twice":                      {listText + "items:\n- {kind: A, apiVersion: v1}\n", 0},
		"no list":                          {strings.Replace(listText, "kind: List", "kind: Other", 1), 0},
		"no items":                         {"kind: List\napiVersion: v1\nitems:\nmetadata: {}\n", 0},
		"items in one line":                {"kind: List\nitems: [{kind: A, apiVersion: v1}]\n", 0},
		"JSON":                             {listInJSON, 2},
		"JSON, items before their kind":    {`{"items": [{"metadata": {"name": "a"}}], "kind": "AList", "apiVersion": "a/v1"}`, 1},
		"JSON, items twice":                {`{"items": [], "kind": "List", "items": [{"kind": "A", "apiVersion": "v1"}]}`, 0},
		"JSON, no list":                    {`{"kind": "A", "apiVersion": "v1", "items": [{}]}`, 0},
		"JSON, another case":               {`{"kind": "List", "Items": [{"kind": "A", "apiVersion": "v1"}]}`, 1},
		"JSON, an item that is no object":  {`{"kind": "List", "items": [1, {"kind": "A", "apiVersion": "v1"}]}`, 2},
		"JSON, items that are none at all": {`{"kind": "List", "items": null}`, 0},
	} {
		documents := splitDocuments("file", []byte(test.text), &Positions{})
		items, _ := documents[0].splitList()
		if !cmp.Equal(len(items), test.cut) && test.cut > 0 {
			t.Errorf("%s: %d items were cut out, want %d", why, len(items), test.cut)
		}
		if diff := cmp.Diff(shown(documents[0].decodeDocument()), shown(documents[0].decodeObjects())); diff != "" {
			t.Errorf("%s (-parsed at once +cut):\n%s", why, diff)
		}
	}
}

// shown are the objects as text, with the line of each and of its name.
func shown(all []Object) (texts []string) {
	for _, o := range all {
		if o.Fault != nil {
			texts = append(texts, o.Fault.Error())
			continue
		}
		texts = append(texts, fmt.Sprint(o.Object, o.LineInFile(""), o.LineInFile("metadata.name")))
	}
	return texts
}
