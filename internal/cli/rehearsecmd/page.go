package rehearsecmd

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"

	"github.com/kilnvm/kiln/internal/cli/cmdutil"
	"github.com/kilnvm/kiln/internal/workbench/rehearsal"
	"github.com/kilnvm/kiln/pkg/record"
)

//go:embed page.html
var pageText string

// pageTemplate escapes what tenants wrote, replaces its control characters, and isolates its direction of writing. The page loads nothing, and its
// Content-Security-Policy lets it run no script.
var pageTemplate = template.Must(template.New("page").Funcs(template.FuncMap{
	"counted":  cmdutil.Counted,
	"notable":  record.WithoutConsequences,
	"breaks":   func(c record.Change) bool { return c.Verdict == record.Breaks },
	"count":    func(r *rehearsal.Rehearsal, v rehearsal.Verdict) int { return r.Counts[v] },
	"verdicts": func() []rehearsal.Verdict { return rehearsal.Verdicts },
	"cause":    describeCause,
	"rule":     ruleName,
	"text":     func(text any) string { return cmdutil.Printable(fmt.Sprint(text)) },
}).Parse(pageText))

// Page returns a rehearsal as one HTML file, which needs no other file.
func Page(r *rehearsal.Rehearsal) ([]byte, error) {
	var page bytes.Buffer
	err := pageTemplate.Execute(&page, r)
	return page.Bytes(), err
}
