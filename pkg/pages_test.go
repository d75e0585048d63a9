package pkg_test

import (
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

// TestRooms: docs/architecture.md has a row for each package directory of pkg and internal.
func TestRooms(t *testing.T) {
	var rooms strings.Builder
	for _, cells := range table(t, "../docs/architecture.md", "| room |") {
		rooms.WriteString(cells[0])
	}
	for _, parent := range []string{"pkg", "internal"} {
		entries, err := os.ReadDir(filepath.Join("..", parent))
		if err != nil {
			t.Fatal(err)
		}
		for _, entry := range entries {
			name := entry.Name()
			row := strings.Contains(rooms.String(), "`"+name+"`") || strings.Contains(rooms.String(), "`"+parent+"/"+name+"`")
			if entry.IsDir() && !row {
				t.Errorf("the table of rooms in docs/architecture.md has no row for %s/%s", parent, name)
			}
		}
	}
}

// pages returns the text of each page by its path.
func pages(t *testing.T) map[string]string {
	t.Helper()
	texts := map[string]string{}
	for _, pattern := range []string{"../*.md", "../docs/*.md", "../docs/*/*.md"} {
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

// TestDecisions: a paragraph of docs/decisions.md stands once, and a blank line is before it. The file is merged by union, which can lose either.
func TestDecisions(t *testing.T) {
	raw, err := os.ReadFile("../docs/decisions.md")
	if err != nil {
		t.Fatal(err)
	}
	title := regexp.MustCompile(`^\*\*(.+?)\*\*`)
	first, before := map[string]int{}, ""
	for i, line := range strings.Split(string(raw), "\n") {
		match := title.FindStringSubmatch(line)
		if match != nil && strings.Contains(line, "(2026-") {
			if other, twice := first[match[1]]; twice {
				t.Errorf("docs/decisions.md:%d: '%s' stands in line %d already", i+1, match[1], other)
			}
			first[match[1]] = i + 1
			if before != "" {
				t.Errorf("docs/decisions.md:%d: no blank line before '%s'", i+1, match[1])
			}
		}
		before = line
	}
	if len(first) < 200 {
		t.Errorf("docs/decisions.md has %d paragraphs, want more than 200", len(first))
	}
}
