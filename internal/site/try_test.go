package site

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"golang.org/x/net/html"
)

// TestTryPageOfHostileCatalog parses the page as a browser does: a catalog adds no element to it, and its names stay strings in the example.
func TestTryPageOfHostileCatalog(t *testing.T) {
	c := hostile()
	for i := range c.Instancetypes {
		c.Instancetypes[i].Namespace, c.Instancetypes[i].Lifecycle = "", "active"
	}
	raw, err := TryPage(c, []byte("// a runner </script>"))
	if err != nil {
		t.Fatal(err)
	}
	document, err := html.Parse(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	var data tryData
	scripts := 0
	for node := range document.Descendants() {
		if node.Type != html.ElementNode {
			continue
		}
		if node.Data == "img" || node.Data == "iframe" {
			t.Errorf("the page has an element '%s'", node.Data)
		}
		if node.Data == "script" {
			if scripts++; scripts == 1 {
				if err := json.Unmarshal([]byte(node.FirstChild.Data), &data); err != nil {
					t.Fatal(err)
				}
			}
		}
		for _, a := range node.Attr {
			if strings.HasPrefix(a.Key, "on") || a.Key == "src" {
				t.Errorf("element '%s' has the attribute '%s'", node.Data, a.Key)
			}
		}
	}
	if scripts != 2 || data.Longest != 2000 || !strings.Contains(data.Worker, "globalThis.kiln") || data.Program != Program {
		t.Errorf("%d scripts, %+v", scripts, data)
	}
	name, err := json.Marshal(c.Instancetypes[0].Name)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(data.Example, "instancetype: {name: "+string(name)+"}") {
		t.Errorf("the example is\n%s", data.Example)
	}
}

func TestExampleVM(t *testing.T) {
	small := Object{Name: "u1.small", Lifecycle: "active", Fits: []int{0, 1}}
	c := Catalog{Instancetypes: []Object{{Name: "old", Lifecycle: "deprecated"}, {Name: "mine", Namespace: "shop", Lifecycle: "active"}, small},
		Preferences: []Object{{Name: "old", Lifecycle: "obsolete"}, {Name: "linux", Lifecycle: "active"}}}
	if got := exampleVM(c); !strings.Contains(got, "  instancetype: {name: u1.small}\n  preference: {name: linux}\n  template:") {
		t.Error(got)
	}
	if got := exampleVM(Catalog{}); strings.Contains(got, "instancetype") || !strings.Contains(got, "memory: {guest: 1Gi}") {
		t.Error(got)
	}
}
