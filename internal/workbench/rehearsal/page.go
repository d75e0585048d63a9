package rehearsal

import (
	"bytes"
	_ "embed"
	"html/template"

	"github.com/kilnvm/kiln/pkg/record"
)

//go:embed page.html
var pageText string

// pageTemplate escapes what tenants wrote. The page loads nothing, and its Content-Security-Policy lets it run no script.
var pageTemplate = template.Must(template.New("page").Funcs(template.FuncMap{
	"notable":  record.WithoutConsequences,
	"breaks":   func(c record.Change) bool { return c.Verdict == record.Breaks },
	"count":    func(r *Rehearsal, v Verdict) int { return r.Counts[v] },
	"verdicts": func() []Verdict { return Verdicts },
}).Parse(pageText))

// Page returns a rehearsal as one HTML file, which needs no other file.
func Page(r *Rehearsal) ([]byte, error) {
	var page bytes.Buffer
	err := pageTemplate.Execute(&page, r)
	return page.Bytes(), err
}
