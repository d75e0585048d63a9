package rehearsal

import (
	"slices"
	"strings"
	"testing"

	"github.com/kilnvm/kiln/pkg/catalog"
	"github.com/kilnvm/kiln/pkg/record"
	"golang.org/x/net/html"
)

// TestPage: the page shows what tenants wrote as text: it has no script and no element, attribute or link of theirs, and loads nothing.
func TestPage(t *testing.T) {
	t.Parallel()
	const hostile = `</style><script>alert(1)</script><img src=x onerror=alert(1)>"'{{.}}javascript:alert(1)`
	key := catalog.Key{Kind: hostile, Namespace: hostile, Name: hostile}
	r := &Rehearsal{
		Changes: []Change{{Key: key, Action: hostile, From: hostile, To: hostile, Source: hostile}}, KubeVirt: "v1.8", KubeVirtAfter: hostile,
		Counts: map[Verdict]int{Breaks: 1}, OwnerLabel: hostile, VMs: []VM{{Namespace: hostile, Name: hostile, Owner: hostile, Verdict: Breaks, Group: 1}},
		Groups: []Group{{ID: 1, Verdict: hostile, Causes: []Cause{{Key: key, From: hostile, To: hostile}}, Example: hostile, VMs: 1,
			Changes:  []record.Change{{Device: "disk.root", Text: hostile, Verdict: record.Breaks}},
			Refusals: []Refusal{{Rule: hostile, Policy: hostile, Field: hostile, Message: hostile}}, Namespaces: []Count{{hostile, 1}}, Owners: []Count{{hostile, 1}}}},
		Unjudged: []Unknown{{hostile, hostile}}, Warnings: []string{hostile},
	}
	page, err := Page(r)
	if err != nil {
		t.Fatal(err)
	}
	plain, err := Page(&Rehearsal{})
	if err != nil {
		t.Fatal(err)
	}
	known := elements(t, plain)
	for _, element := range elements(t, page) {
		if name, _, _ := strings.Cut(element, " "); slices.Contains([]string{"script", "img", "a", "link", "iframe", "form"}, name) ||
			strings.Contains(element, " on") {
			t.Errorf("the page has an element <%s>", element)
		}
	}
	if len(known) == 0 || strings.Count(string(page), "&lt;script&gt;") < 15 {
		t.Errorf("the page shows %d of the texts of tenants", strings.Count(string(page), "&lt;script&gt;"))
	}
	if !strings.Contains(string(page), "default-src &#39;none&#39;") && !strings.Contains(string(page), "default-src 'none'") {
		t.Error("the page has no Content-Security-Policy")
	}
}

// elements returns the elements of a page with the names of their attributes.
func elements(t *testing.T, page []byte) (all []string) {
	t.Helper()
	tokens := html.NewTokenizer(strings.NewReader(string(page)))
	for {
		switch kind := tokens.Next(); kind {
		case html.ErrorToken:
			return all
		case html.StartTagToken, html.SelfClosingTagToken:
			token := tokens.Token()
			text := token.Data
			for _, attribute := range token.Attr {
				text += " " + attribute.Key
			}
			all = append(all, text)
		}
	}
}
