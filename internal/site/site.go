// Package site makes one static HTML page of a catalog. The page contains its styles, script and data, and needs neither a server nor a network: it opens
// from a disk, an archive or any web server.
//
// The rows of both tables are HTML, which is readable without a script. The script adds filters, comparison, details and permalinks. Names,
// labels and descriptions are not trusted: the template escapes them, the script only sets text, and the
// page's Content-Security-Policy allows no other script and no connection.
package site

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html/template"
	"slices"
)

var (
	//go:embed page.html
	page string
	//go:embed page.css
	style string
	//go:embed page.js
	script string
)

// Catalog is the content of a page.
type Catalog struct {
	// Title is the heading of the page, followed by Version and Source. Each may be empty.
	Title   string `json:"title"`
	Version string `json:"version,omitempty"`
	Source  string `json:"source,omitempty"`
	// Reference is the OCI reference of the catalog, empty if it came from a folder.
	Reference string `json:"reference,omitempty"`
	// Digest is the digest of the published catalog, Created the time of its publication, and Repository and Revision are what its author says of its source.
	Digest     string `json:"digest,omitempty"`
	Created    string `json:"created,omitempty"`
	Repository string `json:"repository,omitempty"`
	Revision   string `json:"revision,omitempty"`
	// SignedBy is the digest of the public key whose signature of Digest was verified; empty if no signature was verified.
	SignedBy string `json:"signedBy,omitempty"`
	// Try reports that TryPage is beside the page, as try.html.
	Try bool `json:"-"`
	// Runtime is the runtime that refuses objects of the page, such as 'pod'; empty if no object is refused.
	Runtime       string   `json:"runtime,omitempty"`
	Instancetypes []Object `json:"instancetypes"`
	Preferences   []Object `json:"preferences"`
}

// Object is an instancetype or a preference.
type Object struct {
	// ID names the object in a permalink, such as 'instancetype/u1.small', or 'instancetype/team-a/u1.small' if the object has a namespace.
	ID          string `json:"id"`
	Name        string `json:"name"`
	Namespace   string `json:"namespace,omitempty"`
	Display     string `json:"display,omitempty"`
	Description string `json:"-"`
	// Lifecycle is 'active', 'deprecated' or 'obsolete'. ReplacedBy is the name of the object to use instead.
	Lifecycle  string `json:"lifecycle"`
	ReplacedBy string `json:"replacedBy,omitempty"`
	// Class is the class of an instancetype, or the operating system of a preference.
	Class string `json:"class,omitempty"`
	// Architectures are the architectures on which VMs with this object boot. An empty list means all.
	Architectures []string `json:"architectures,omitempty"`
	// CPUs is the number of vCPUs of an instancetype, or the number that a preference requires.
	CPUs uint32 `json:"cpus,omitempty"`
	// Memory is the memory of an instancetype, or the memory that a preference requires, in the catalog's spelling. Bytes is the same amount in bytes.
	Memory string `json:"memory,omitempty"`
	Bytes  int64  `json:"bytes,omitempty"`
	GPUs   int    `json:"gpus,omitempty"`
	// Features are words such as 'dedicated CPUs' and 'hugepages 2Mi'.
	Features []string `json:"features,omitempty"`
	// Fields are the leaves of the spec, for comparison.
	Fields []Field `json:"-"`
	// Fits has, for an instancetype, the indexes of the preferences that it can be used with. It is empty for a preference.
	Fits []int `json:"fits,omitempty"`
	// Refused is the reason why the runtime of the page starts no guest with the object; empty if it starts guests, or without a runtime.
	Refused string `json:"refused,omitempty"`
	// Manifest is the object in YAML.
	Manifest string `json:"manifest"`
}

// Field is a leaf of a spec.
type Field struct{ Path, Value string }

// pageData is the data of the page's script. It contains paths of fields and descriptions only once, because the instancetypes of a series share them.
type pageData struct {
	Catalog
	Texts []string `json:"texts"`
	// Descriptions has indexes of Texts by the IDs of objects.
	Descriptions map[string]int `json:"descriptions"`
	// Fields has the fields of objects by their IDs. A field is the index of its path in Texts, and its value.
	Fields map[string][][2]any `json:"fields"`
}

func dataOf(c Catalog) pageData {
	data := pageData{Catalog: c, Texts: []string{}, Descriptions: map[string]int{}, Fields: map[string][][2]any{}}
	index := map[string]int{}
	text := func(of string) int {
		at, known := index[of]
		if !known {
			at = len(data.Texts)
			index[of], data.Texts = at, append(data.Texts, of)
		}
		return at
	}
	for _, o := range slices.Concat(c.Instancetypes, c.Preferences) {
		if o.Description != "" {
			data.Descriptions[o.ID] = text(o.Description)
		}
		for _, f := range o.Fields {
			data.Fields[o.ID] = append(data.Fields[o.ID], [2]any{text(f.Path), f.Value})
		}
	}
	return data
}

// Page returns the page of a catalog.
func Page(c Catalog) ([]byte, error) {
	parsed, err := template.New("page").Parse(page)
	if err != nil {
		return nil, fmt.Errorf("the page's template: %w", err)
	}
	data, err := json.Marshal(dataOf(c)) // escapes <, > and &: no text ends the script element
	if err != nil {
		return nil, err
	}
	values := struct {
		Catalog
		Classes, Systems, Architectures []string
		Shown, ShownPreferences         columns
		// Groups has, for each instancetype, the series that begins with it, or nil.
		Groups       []*Object
		Policy       string
		Data, Script template.JS
		Style        template.CSS
	}{
		Catalog: c, Shown: columnsOf(c.Instancetypes), ShownPreferences: columnsOf(c.Preferences), Groups: groupsOf(c.Instancetypes),
		Data: template.JS(data), Script: template.JS(script), Style: template.CSS(style), Policy: contentSecurityPolicy(),
		Classes:       distinctValues(c.Instancetypes, func(o Object) []string { return []string{o.Class} }),
		Systems:       distinctValues(c.Preferences, func(o Object) []string { return []string{o.Class} }),
		Architectures: distinctValues(append(slices.Clone(c.Instancetypes), c.Preferences...), func(o Object) []string { return o.Architectures }),
	}
	var out bytes.Buffer
	if err := parsed.Execute(&out, values); err != nil {
		return nil, fmt.Errorf("the page cannot be written: %w", err)
	}
	return out.Bytes(), nil
}

// columns are the columns in which at least one cell differs from what most objects have.
type columns struct{ GPUs, Architectures, Features, Lifecycle bool }

func columnsOf(objects []Object) (shown columns) {
	for _, o := range objects {
		shown.GPUs = shown.GPUs || o.GPUs > 0
		shown.Architectures = shown.Architectures || len(o.Architectures) > 0
		shown.Features = shown.Features || len(o.Features) > 0
		shown.Lifecycle = shown.Lifecycle || o.Lifecycle != "active"
	}
	return shown
}

// groupsOf returns the first object of each series, at its index. The objects of a series follow each other, and have one display name and class.
func groupsOf(objects []Object) []*Object {
	groups := make([]*Object, len(objects))
	for i, o := range objects {
		if i == 0 || o.Display != objects[i-1].Display || o.Class != objects[i-1].Class {
			groups[i] = &objects[i]
		}
	}
	return groups
}

// contentSecurityPolicy returns a policy that allows only this package's script and style, by their digests.
func contentSecurityPolicy() string {
	return fmt.Sprintf("default-src 'none'; script-src '%s'; style-src '%s'; base-uri 'none'; form-action 'none'", scriptDigest(script), scriptDigest(style))
}

func scriptDigest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}

// distinctValues returns the sorted values that a filter offers.
func distinctValues(objects []Object, of func(Object) []string) (all []string) {
	for _, o := range objects {
		all = append(all, of(o)...)
	}
	slices.Sort(all)
	all = slices.Compact(all)
	return slices.DeleteFunc(all, func(s string) bool { return s == "" })
}
