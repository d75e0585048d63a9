package importreport

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/kilnvm/kiln/internal/workbench/domainimport"
	"github.com/kilnvm/kiln/pkg/domain/imported"
	"github.com/kilnvm/kiln/pkg/record"
	"golang.org/x/net/html"
)

// attack tries to leave each context of the page, to load something, to clear a terminal, and to reverse the text that follows.
const attack = "\"'></style><script>alert(1)</script><img src=http://x.example/ onerror=alert(1)>{{.}}<!--\x1b[2J\x00\u202eevil\u2066"

// hostile is a report in which the domain has chosen each text.
func hostile() domainimport.Report {
	element := domainimport.Element{Path: attack, Device: attack, Outcome: domainimport.LeftOut, Verdict: record.Breaks,
		Details: []string{attack}, Host: []string{attack}}
	element.Device += "2" // a device without a name of its own has its path
	kept := element
	kept.Outcome, kept.Verdict = domainimport.Kept, record.Compatible
	return domainimport.Report{Domain: attack, VM: attack, Verdict: record.Breaks, Machine: []domainimport.Fact{{Name: attack, Value: attack}},
		Elements: []domainimport.Element{element, kept}, Sources: []imported.Source{{Device: attack, From: attack, Format: attack, To: attack, Claim: attack}},
		Steps: []domainimport.Step{{Text: attack, Command: attack}}, Notes: []string{attack},
		Choices: []domainimport.Choice{{Kind: attack, Name: attack, Details: []string{attack}}}}
}

// TestPageOfHostileDomain parses the page as a browser does: no text of the domain becomes an element, an attribute or a control character, and no text changes
// the direction of others.
func TestPageOfHostileDomain(t *testing.T) {
	raw, err := Page(hostile())
	if err != nil {
		t.Fatal(err)
	}
	document, err := html.Parse(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	texts := 0
	for node := range document.Descendants() {
		if node.Type == html.TextNode && strings.Contains(node.Data, "evil") {
			texts++
			inside := []string{node.Parent.Data, node.Parent.Parent.Data}
			if !slices.Contains(inside, "bdi") && !slices.Contains(inside, "code") && !slices.Contains(inside, "title") {
				t.Errorf("a text of the domain is not isolated in <%s>: %q", node.Parent.Data, node.Data)
			}
		}
		for _, r := range node.Data {
			if node.Type == html.TextNode && r != '\n' && (unicode.IsControl(r) || unicode.Is(unicode.Cf, r)) {
				t.Errorf("the page has the character %U in %q", r, node.Data)
			}
		}
		if node.Type != html.ElementNode {
			continue
		}
		if slices.Contains([]string{"script", "img", "iframe", "object", "link", "a"}, node.Data) {
			t.Errorf("the page has an element '%s'", node.Data)
		}
		for _, a := range node.Attr {
			if strings.HasPrefix(a.Key, "on") || a.Key == "src" || a.Key == "href" || strings.Contains(a.Val, "evil") {
				t.Errorf("element '%s' has the attribute %s=%q", node.Data, a.Key, a.Val)
			}
		}
	}
	if texts < 20 {
		t.Errorf("the page shows only %d texts of the domain", texts)
	}
	if !bytes.Contains(raw, []byte("default-src &#39;none&#39;; style-src &#39;sha256-")) {
		t.Error("the page has no Content-Security-Policy")
	}
}

// TestPageSections: the page sorts the elements by what they mean for its reader, and names all of them at its end.
func TestPageSections(t *testing.T) {
	report := domainimport.Report{Domain: "old", VM: "web", Verdict: record.Breaks,
		Choices: []domainimport.Choice{{Kind: "I", Name: "small", Used: true}, {Kind: "P", Name: "linux", Details: []string{"a reason"}}},
		Machine: []domainimport.Fact{{Name: "memory", Value: "2Gi"}},
		Steps:   []domainimport.Step{{Text: "start the VM", Command: "virtctl start web"}},
		Elements: []domainimport.Element{
			{Path: "uuid", Outcome: domainimport.Kept, Verdict: record.Compatible},
			{Path: "devices/video[0]", Outcome: domainimport.Recorded, Verdict: record.Compatible},
			{Path: "devices/sound[0]", Outcome: domainimport.LeftOut, Verdict: record.NeedsRestart, Details: []string{"no such card"}},
			{Path: "cputune", Outcome: domainimport.HostOnly, Verdict: record.Compatible, Host: []string{"shares='2'"}},
			{Path: "os", Outcome: domainimport.Changed, Verdict: record.Breaks, Details: []string{"another board"}},
		}}
	raw, err := Page(report)
	if err != nil {
		t.Fatal(err)
	}
	for title, wants := range map[string][]string{
		"For the guest: breaks the guest&#39;s hardware": {meanings[record.Breaks][:30], "1 kept<", "1 kept by the record"},
		"What the machine was":                           {"memory", "2Gi"},
		"What has to be done":                            {"start the VM", "virtctl start web"},
		"What was chosen of the catalog":                 {"I &#39;small&#39; is used<", "P &#39;linux&#39; is not used: a reason"},
		"What the guest will notice":                     {"another board", "no such card"},
		"What is kept":                                   {"uuid", "devices/video[0]"},
		"What is left out, and why":                      {"no such card", "not kept: shares=&#39;2&#39;"},
		"All elements":                                   {"uuid", "devices/video[0]", "devices/sound[0]", "cputune", "another board"},
		"What takes the place of something of the host":  {"Nothing."},
	} {
		_, section, found := strings.Cut(string(raw), "<h2>"+title+"</h2>")
		section, _, _ = strings.Cut(section, "<h2>")
		if !found {
			t.Errorf("the page has no section '%s':\n%s", title, raw)
		}
		for _, want := range wants {
			if !strings.Contains(section, want) {
				t.Errorf("section '%s' has no '%s':\n%s", title, want, section)
			}
		}
	}
	_, noticed, _ := strings.Cut(string(raw), "will notice")
	if strings.Index(noticed, "another board") > strings.Index(noticed, "no such card") {
		t.Error("the worst row is not the first one")
	}
}

// TestWritePage: a page is never written over a file.
func TestWritePage(t *testing.T) {
	name := filepath.Join(t.TempDir(), "web.html")
	if err := WritePage(name, hostile()); err != nil {
		t.Fatal(err)
	}
	written, err := os.ReadFile(name)
	if err != nil || !bytes.HasPrefix(written, []byte("<!DOCTYPE html>")) {
		t.Fatalf("%v\n%s", err, written)
	}
	if err := WritePage(name, domainimport.Report{Domain: "other"}); err == nil || !strings.Contains(err.Error(), name) {
		t.Errorf("the second page: %v", err)
	}
	if again, err := os.ReadFile(name); err != nil || !bytes.Equal(again, written) {
		t.Errorf("the first page was changed, %v", err)
	}
}
