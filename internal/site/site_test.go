package site

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/net/html"
)

// hostile is a catalog whose author tries to leave each context of the page: text, attributes, the script's data, links.
func hostile() Catalog {
	const attack = `"'></script><script>alert(1)</script><img src=x onerror=alert(1)>` + "`${alert(1)}`" + `<!--`
	object := Object{
		ID: "instancetype/small", Name: attack, Namespace: attack, Display: attack, Description: attack, Lifecycle: "deprecated", ReplacedBy: attack,
		Class: attack, Architectures: []string{attack}, Memory: attack, Features: []string{attack}, Manifest: attack, Refused: attack,
		Fields: []Field{{attack, attack}}, Fits: []int{0},
	}
	partner := object
	partner.ID = "javascript:alert(1)"
	return Catalog{Title: attack, Version: attack, Source: attack, Reference: attack, Digest: attack, Created: attack, Repository: attack, Revision: attack,
		SignedBy: attack, Runtime: attack,
		Instancetypes: []Object{object}, Preferences: []Object{partner}}
}

// TestPageOfHostileCatalog parses the page as a browser does: no text of the catalog becomes an element or an attribute.
func TestPageOfHostileCatalog(t *testing.T) {
	raw, err := Page(hostile())
	if err != nil {
		t.Fatal(err)
	}
	document, err := html.Parse(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	scripts := 0
	for node := range document.Descendants() {
		if node.Type != html.ElementNode {
			continue
		}
		if node.Data == "img" || node.Data == "iframe" || node.Data == "object" {
			t.Errorf("the page has an element '%s'", node.Data)
		}
		if node.Data == "script" {
			scripts++
		}
		for _, a := range node.Attr {
			if strings.HasPrefix(a.Key, "on") {
				t.Errorf("element '%s' has the attribute '%s'", node.Data, a.Key)
			}
			if a.Key == "href" && !strings.HasPrefix(a.Val, "#") {
				t.Errorf("a link leaves the page: '%s'", a.Val)
			}
			if a.Key == "src" {
				t.Errorf("element '%s' loads '%s'", node.Data, a.Val)
			}
		}
	}
	if scripts != 2 {
		t.Errorf("the page has %d scripts, not its data and its code", scripts)
	}
}

// TestData reads the data back as the page's script does.
func TestData(t *testing.T) {
	want := hostile()
	raw, err := Page(want)
	if err != nil {
		t.Fatal(err)
	}
	document, err := html.Parse(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	for node := range document.Descendants() {
		for _, a := range node.Attr {
			if a.Key != "id" || a.Val != "data" {
				continue
			}
			var got pageData
			if err := json.Unmarshal([]byte(node.FirstChild.Data), &got); err != nil {
				t.Fatal(err)
			}
			for _, objects := range [][]Object{got.Instancetypes, got.Preferences} {
				for i := range objects {
					for _, f := range got.Fields[objects[i].ID] {
						objects[i].Fields = append(objects[i].Fields, Field{got.Texts[int(f[0].(float64))], f[1].(string)})
					}
					objects[i].Description = got.Texts[got.Descriptions[objects[i].ID]]
				}
			}
			if diff := cmp.Diff(want, got.Catalog); diff != "" {
				t.Error(diff)
			}
			return
		}
	}
	t.Error("the page has no data")
}

// TestPolicy compares the digests of the policy with the elements that stand in the page: a browser runs nothing else.
func TestPolicy(t *testing.T) {
	raw, err := Page(Catalog{Title: "General"})
	if err != nil {
		t.Fatal(err)
	}
	document, err := html.Parse(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	var policy, code, look string
	for node := range document.Descendants() {
		attributes := map[string]string{}
		for _, a := range node.Attr {
			attributes[a.Key] = a.Val
		}
		switch {
		case node.Data == "meta" && attributes["http-equiv"] == "Content-Security-Policy":
			policy = attributes["content"]
		case node.Data == "script" && attributes["type"] == "":
			code = node.FirstChild.Data
		case node.Data == "style":
			look = node.FirstChild.Data
		}
	}
	if want := "default-src 'none'; script-src '" + scriptDigest(code) + "'; style-src '" + scriptDigest(look) + "'; "; !strings.HasPrefix(policy, want) {
		t.Errorf("the policy is %q, want %q", policy, want)
	}
}

// TestColumns: a column in which no object differs is left out, and a series has its name once.
func TestColumns(t *testing.T) {
	plain := []Object{
		{Name: "u1.small", Display: "General", Class: "general", Lifecycle: "active"}, {Name: "u1.large", Display: "General", Class: "general", Lifecycle: "active"},
		{Name: "c1.small", Display: "Compute", Class: "compute", Lifecycle: "active"},
	}
	with := func(change func(*Object)) []Object {
		objects := slices.Clone(plain)
		change(&objects[1])
		return objects
	}
	for head, objects := range map[string][]Object{
		">GPUs<":         with(func(o *Object) { o.GPUs = 1 }),
		">Architecture<": with(func(o *Object) { o.Architectures = []string{"arm64"} }),
		">Features<":     with(func(o *Object) { o.Features = []string{"NUMA"} }),
		">Lifecycle<":    with(func(o *Object) { o.Lifecycle = "deprecated" }),
	} {
		without, err := Page(Catalog{Instancetypes: plain})
		if err != nil {
			t.Fatal(err)
		}
		has, err := Page(Catalog{Instancetypes: objects})
		if err != nil {
			t.Fatal(err)
		}
		heads := func(page []byte) string {
			_, after, _ := strings.Cut(string(page), "<thead>")
			list, _, _ := strings.Cut(after, "</thead>")
			return list
		}
		if strings.Contains(heads(without), head) || !strings.Contains(heads(has), head) {
			t.Errorf("column %s:\n%s\n%s", head, heads(without), heads(has))
		}
		if n := strings.Count(string(without), `class="group"`); n != 2 {
			t.Errorf("%d series, want 2", n)
		}
	}
}

// TestTheSamePageTwice allows a page to be kept in Git.
func TestTheSamePageTwice(t *testing.T) {
	one, err := Page(hostile())
	if err != nil {
		t.Fatal(err)
	}
	two, err := Page(hostile())
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(one, two) {
		t.Error("two pages of one catalog differ")
	}
}
