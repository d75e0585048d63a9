// Package site tests the site of 'make site', and the page on which a reader tries manifests.
package site

import (
	"bytes"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/net/html"
)

// page is an HTML page: the targets of its anchors, its links, and what a browser loads with it.
type page struct {
	anchors      map[string]bool
	links, loads []string
}

// DeadLinks returns how many pages are below a folder, and which of their links lead to no file of the folder or to no element of a page. It also returns
// links from the root of a server, because the folder may be below any path, and what a page loads from another server. It does not follow links to other
// servers.
func DeadLinks(dir string) (count int, dead []string, err error) {
	pages := map[string]page{}
	err = filepath.WalkDir(dir, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(file) != ".html" {
			return err
		}
		name, err := filepath.Rel(dir, file)
		if err != nil {
			return err
		}
		pages[filepath.ToSlash(name)], err = readPage(file)
		return err
	})
	for name, p := range pages {
		for _, link := range p.links {
			if problem := follow(dir, pages, name, link); problem != "" {
				dead = append(dead, fmt.Sprintf("%s: %s: %s", name, link, problem))
			}
		}
		for _, link := range p.loads {
			problem := follow(dir, pages, name, link)
			if at, err := url.Parse(link); err == nil && (at.Scheme != "" && at.Scheme != "data" || at.Host != "") {
				problem = "is loaded from another server"
			}
			if problem != "" {
				dead = append(dead, fmt.Sprintf("%s: %s: %s", name, link, problem))
			}
		}
	}
	slices.Sort(dead)
	return len(pages), slices.Compact(dead), err
}

// follow returns why a link of a page leads nowhere, or nothing.
func follow(dir string, pages map[string]page, from, link string) string {
	at, err := url.Parse(link)
	switch {
	case err != nil:
		return err.Error()
	case at.Scheme != "" || at.Host != "":
		return ""
	case strings.HasPrefix(at.Path, "/"):
		return "begins at the root of the server"
	}
	to := from
	if at.Path != "" {
		to = path.Join(path.Dir(from), at.Path)
		if info, err := os.Stat(filepath.Join(dir, filepath.FromSlash(to))); err == nil && info.IsDir() {
			to = path.Join(to, "index.html")
		}
	}
	if _, err := os.Stat(filepath.Join(dir, filepath.FromSlash(to))); err != nil || strings.HasPrefix(to, "../") {
		return "there is no " + to
	}
	// A fragment with a slash is a state of the catalog's page, such as '#instancetype/u1.small'. No address of a heading has one.
	if p, is := pages[to]; is && at.Fragment != "" && !strings.Contains(at.Fragment, "/") && !p.anchors[at.Fragment] {
		return to + " has no such heading"
	}
	return ""
}

func readPage(file string) (page, error) {
	p := page{anchors: map[string]bool{}}
	raw, err := os.ReadFile(file)
	if err != nil {
		return p, err
	}
	document, err := html.Parse(bytes.NewReader(raw))
	if err != nil {
		return p, fmt.Errorf("%s: %w", file, err)
	}
	for node := range document.Descendants() {
		for _, a := range node.Attr {
			switch {
			case node.Type != html.ElementNode:
			case a.Key == "id" || node.Data == "a" && a.Key == "name":
				p.anchors[a.Val] = true
			case a.Key == "href" && node.Data == "a":
				p.links = append(p.links, a.Val)
			case a.Key == "href" || a.Key == "src":
				p.loads = append(p.loads, a.Val)
			case a.Key == "srcset":
				for _, candidate := range strings.Split(a.Val, ",") {
					if fields := strings.Fields(candidate); len(fields) > 0 {
						p.loads = append(p.loads, fields[0])
					}
				}
			}
		}
	}
	return p, nil
}
