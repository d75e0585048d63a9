package rehearsecmd

import (
	"slices"
	"strings"
	"testing"

	"github.com/kilnvm/kiln/internal/workbench/rehearsal"
	"github.com/kilnvm/kiln/pkg/catalog"
	"github.com/kilnvm/kiln/pkg/record"
	"golang.org/x/net/html"
)

// TestPage: the page shows what tenants wrote as text: it has no script and no element, attribute or link of theirs, and loads nothing.
func TestPage(t *testing.T) {
	t.Parallel()
	const hostile = `</style><script>alert(1)</script><img src=x onerror=alert(1)>"'{{.}}javascript:alert(1)` + "\u202e\x1b[31m"
	key := catalog.Key{Kind: hostile, Namespace: hostile, Name: hostile}
	r := &rehearsal.Rehearsal{
		Changes: []rehearsal.Change{{Key: key, Action: hostile, From: hostile, To: hostile, Source: hostile}}, KubeVirt: "v1.8", KubeVirtAfter: hostile,
		Counts: map[rehearsal.Verdict]int{rehearsal.Breaks: 1}, OwnerLabel: hostile,
		VMs: []rehearsal.VM{{Namespace: hostile, Name: hostile, Owner: hostile, Verdict: rehearsal.Breaks, Group: 1}},
		Groups: []rehearsal.Group{{ID: 1, Verdict: hostile, Causes: []rehearsal.Cause{{Key: key, From: hostile, To: hostile}}, Example: hostile, VMs: 1,
			Changes:    []record.Change{{Device: "disk.root", Text: hostile, Verdict: record.Breaks}},
			Refusals:   []rehearsal.Refusal{{Rule: hostile, Policy: hostile, Field: hostile, Message: hostile}},
			Namespaces: []rehearsal.Count{{Name: hostile, VMs: 1}}, Owners: []rehearsal.Count{{Name: hostile, VMs: 1}}}},
		Unjudged: []rehearsal.Unknown{{What: hostile, Reason: hostile}}, Warnings: []string{hostile},
	}
	page, err := Page(r)
	if err != nil {
		t.Fatal(err)
	}
	plain, err := Page(&rehearsal.Rehearsal{})
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
	if strings.ContainsAny(string(page), "\u202e\x1b") || strings.Count(string(page), "<bdi>") < 15 {
		t.Error("a text of a tenant has control characters, or changes the direction of others")
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
