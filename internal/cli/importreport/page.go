package importreport

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"errors"
	"fmt"
	"html/template"
	"os"
	"slices"

	"github.com/kilnvm/kiln/internal/cli/cmdutil"
	"github.com/kilnvm/kiln/internal/workbench/domainimport"
	"github.com/kilnvm/kiln/pkg/record"
)

var (
	//go:embed page.html
	page string
	//go:embed page.css
	style string
)

// meanings say what a verdict means for the owner of the VM.
var meanings = map[record.Verdict]string{
	record.Compatible:   "The guest sees no difference.",
	record.NeedsRestart: "The guest finds more devices, fewer devices or other settings at its next boot, and all other devices where they were.",
	record.Breaks: "A device or identifier on which the guest relies changes or moves. Network names, boot entries and licences may be lost. " +
		"Read the rows with this verdict before you move the machine.",
}

// pageData are the values of the template.
type pageData struct {
	domainimport.Report
	Meaning string
	// Noticed are the elements of which the guest sees a difference, the worst first. Left are the elements that the VM does not have, or has not completely.
	Noticed, Left []domainimport.Element
	// Kept are the elements that the next boot has as they were.
	Kept   []domainimport.Element
	Counts []count
	Policy string
	Style  template.CSS
}

// count is how many elements have an outcome.
type count struct {
	Outcome domainimport.Outcome
	Number  int
}

// Page returns the report as one HTML page, which needs no script and no network. The texts of the domain are not trusted: the template escapes them, their
// control characters are replaced, each is isolated from the direction of writing of others, and the Content-Security-Policy allows only the style of the page.
func Page(report domainimport.Report) ([]byte, error) {
	parsed, err := template.New("page").Funcs(template.FuncMap{"text": printableText, "reasons": reasonsOf, "class": classOf, "choice": choiceText}).Parse(page)
	if err != nil {
		return nil, fmt.Errorf("the page's template: %w", err)
	}
	data := pageData{Report: report, Meaning: meanings[report.Verdict], Style: template.CSS(style)}
	sum := sha256.Sum256([]byte(style))
	data.Policy = "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'; base-uri 'none'; form-action 'none'"
	for _, e := range report.Elements {
		if e.Verdict != record.Compatible {
			data.Noticed = append(data.Noticed, e)
		}
		if e.Outcome == domainimport.LeftOut || e.Outcome == domainimport.HostOnly || len(e.Host) > 0 {
			data.Left = append(data.Left, e)
		}
		if e.Outcome == domainimport.Kept || e.Outcome == domainimport.Recorded {
			data.Kept = append(data.Kept, e)
		}
	}
	slices.SortStableFunc(data.Noticed, func(a, b domainimport.Element) int { return cmp.Compare(rankOf(b.Verdict), rankOf(a.Verdict)) })
	counts := countOutcomes(report)
	for _, outcome := range []domainimport.Outcome{domainimport.Kept, domainimport.Recorded, domainimport.Mapped, domainimport.HostOnly, domainimport.Changed,
		domainimport.LeftOut, domainimport.Added} {
		data.Counts = append(data.Counts, count{outcome, counts[outcome]})
	}
	var out bytes.Buffer
	if err := parsed.Execute(&out, data); err != nil {
		return nil, fmt.Errorf("the page cannot be written: %w", err)
	}
	return out.Bytes(), nil
}

// rankOf orders verdicts from the best to the worst.
func rankOf(v record.Verdict) int {
	return slices.Index([]record.Verdict{record.NeedsRestart, record.Breaks}, v)
}

// classOf returns the class of a verdict in the style of the page.
func classOf(v record.Verdict) string {
	return map[record.Verdict]string{record.NeedsRestart: "restart", record.Breaks: "breaks"}[v]
}

// printableText returns a text without control characters. Its parameter is any type because template functions convert no named string types.
func printableText(text any) string { return cmdutil.Printable(fmt.Sprint(text)) }

// WritePage writes the page of a report into a new file. An existing file is never overwritten: it may be the report of another machine.
func WritePage(name string, report domainimport.Report) error {
	content, err := Page(report)
	if err != nil {
		return err
	}
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	switch {
	case errors.Is(err, os.ErrExist):
		return FileExists(name)
	case err != nil:
		return err
	}
	_, err = file.Write(content)
	if err = errors.Join(err, file.Close()); err != nil {
		return errors.Join(err, os.Remove(name))
	}
	return nil
}

// FileExists returns the error for a report whose file exists.
func FileExists(name string) error {
	return fmt.Errorf("--report: the file '%s' exists already: name another one", name)
}
