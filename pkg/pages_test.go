package pkg_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	// link is the target of a link in Markdown, without its anchor.
	link = regexp.MustCompile(`\]\(([^)#:]+)(?:#[^)]*)?\)`)
	// treePath is a path from the root of the repository. It ends before a placeholder such as <area> or *.
	treePath = regexp.MustCompile("(?:^|[\\s`(])((?:api/v1alpha1|certs|cmd|docs|examples|internal|manifests|pkg|test)/[\\w./-]*)")
)

// TestLinks: what a page links to within the repository exists.
func TestLinks(t *testing.T) {
	links := 0
	for page, text := range pages(t) {
		for _, target := range link.FindAllStringSubmatch(text, -1) {
			links++
			if _, err := os.Stat(filepath.Join(filepath.Dir(page), target[1])); err != nil {
				t.Errorf("%s links to '%s': %v", page, target[1], err)
			}
		}
	}
	if links < 40 {
		t.Errorf("found %d links, want more", links)
	}
}

// TestPaths: each path of the repository that a page names exists.
func TestPaths(t *testing.T) {
	paths := 0
	for page, text := range pages(t) {
		for _, path := range treePath.FindAllStringSubmatch(text, -1) {
			paths++
			if _, err := os.Stat(filepath.Join("..", strings.TrimRight(path[1], "."))); err != nil {
				t.Errorf("%s names '%s': %v", page, path[1], err)
			}
		}
	}
	if paths < 200 {
		t.Errorf("found %d paths, want more", paths)
	}
}

// TestPackages: docs/project/architecture.md has a row for each package directory of pkg and internal.
func TestPackages(t *testing.T) {
	var listed strings.Builder
	for _, cells := range table(t, "../docs/project/architecture.md", "| package |") {
		listed.WriteString(cells[0])
	}
	for _, parent := range []string{"pkg", "internal"} {
		entries, err := os.ReadDir(filepath.Join("..", parent))
		if err != nil {
			t.Fatal(err)
		}
		for _, entry := range entries {
			name := entry.Name()
			row := strings.Contains(listed.String(), "`"+name+"`") || strings.Contains(listed.String(), "`"+parent+"/"+name+"`")
			if entry.IsDir() && !row {
				t.Errorf("the table of packages in docs/project/architecture.md has no row for %s/%s", parent, name)
			}
		}
	}
}

// pages returns the text of each page by its path.
func pages(t *testing.T) map[string]string {
	t.Helper()
	texts := map[string]string{}
	for _, pattern := range []string{"../*.md", "../docs/*.md", "../docs/*/*.md", "../docs/*/*/*.md"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("'%s' matches no page: %v", pattern, err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			texts[file] = string(text)
		}
	}
	return texts
}

// TestDecisionRecords: the records of docs/project/adr are numbered without a gap, have the headings that docs/project/adr/README.md asks for, and stand in its
// index by their titles.
func TestDecisionRecords(t *testing.T) {
	index, err := os.ReadFile("../docs/project/adr/README.md")
	if err != nil {
		t.Fatal(err)
	}
	records, err := filepath.Glob("../docs/project/adr/[0-9]*.md")
	if err != nil || len(records) == 0 {
		t.Fatalf("found no records: %v", err)
	}
	form := regexp.MustCompile(`^# (\d+\. .+)\n\n(Accepted|Replaced by) ?.*, \d{4}-\d{2}\.\n\n## Context\n(?s:.+)\n## Decision\n(?s:.+)\n## Consequences\n`)
	for i, record := range records { // Glob sorts
		text, err := os.ReadFile(record)
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Base(record)
		match := form.FindStringSubmatch(string(text))
		switch {
		case !strings.HasPrefix(name, fmt.Sprintf("%04d-", i+1)):
			t.Errorf("docs/project/adr/%s: want number %04d", name, i+1)
		case match == nil:
			t.Errorf("docs/project/adr/%s: want a title with its number, status and month, Context, Decision, Consequences", name)
		case !strings.Contains(string(index), fmt.Sprintf("- [%s](%s)\n", match[1], name)):
			t.Errorf("docs/project/adr/README.md: want the line '- [%s](%s)'", match[1], name)
		}
	}
}
