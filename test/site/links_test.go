package site

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestDeadLinks(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"index.html": `<h1 id="top">Top</h1><a href="docs/a.html#one">1</a> <a href="docs/">2</a> <a href="#top">3</a>
			<a href="https://example.org/#x">4</a>
			<a href="docs/b.html">5</a> <a href="docs/a.html#two">6</a> <a href="/docs/a.html">7</a> <a href="#bottom">8</a>
			<a href="#kind%2fname">8</a> <a href="../x.html">9</a>
			<script src="https://example.org/a.js"></script><img src="a.png"><link rel="stylesheet" href="//example.org/a.css">`,
		"docs/a.html":     `<h2 id="one">One</h2><a href="../index.html#top">up</a>`,
		"docs/index.html": `<a href="./">here</a><img src="data:image/png;base64,AA==" srcset="a.html 2x, c.png 3x">`,
	} {
		file := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	pages, dead, err := DeadLinks(dir)
	if err != nil || pages != 3 {
		t.Fatal(pages, err)
	}
	if diff := cmp.Diff([]string{
		"docs/index.html: c.png: there is no docs/c.png",
		"index.html: #bottom: index.html has no such heading",
		"index.html: ../x.html: there is no ../x.html",
		"index.html: //example.org/a.css: is loaded from another server",
		"index.html: /docs/a.html: begins at the root of the server",
		"index.html: a.png: there is no a.png",
		"index.html: docs/a.html#two: docs/a.html has no such heading",
		"index.html: docs/b.html: there is no docs/b.html",
		"index.html: https://example.org/a.js: is loaded from another server",
	}, dead); diff != "" {
		t.Error(diff)
	}
}
