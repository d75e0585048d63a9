package catalogcmd

import (
	"encoding/json"
	"net/url"
	"path/filepath"

	"github.com/kilnvm/kiln/internal/version"
	"github.com/kilnvm/kiln/internal/workbench/catalogs"
	"github.com/kilnvm/kiln/internal/workbench/manifest"
	"github.com/owenrumney/go-sarif/v3/pkg/report/v210/sarif"
)

// rulesURI is the page that describes the rules of 'catalog lint'.
const rulesURI = "https://github.com/kilnvm/kiln/blob/main/docs/how-to/catalog.md"

// printSARIF prints findings in the Static Analysis Results Interchange Format, version 2.1.0 (OASIS), which code hosts show at the line of a change.
// The names of Kiln's severities (error, warning, note) are levels of SARIF. Objects of a cluster and of the standard input have no file, but only a logical
// location.
func (o *lintRun) printSARIF(findings []catalogs.Finding) error {
	run := sarif.NewRunWithInformationURI("kubectl-kiln", rulesURI)
	run.Tool.Driver.WithVersion(version.Read().Version)
	// All rules are listed, also rules without findings, because code hosts show which checks a run made. A result refers to its rule by the index.
	index := map[string]int{}
	for i, rule := range catalogs.Rules() {
		index[rule.Name] = i
		described := run.AddRule(rule.Name).WithDescription(rule.Says).WithHelpURI(rulesURI)
		described.WithDefaultConfiguration(sarif.NewReportingConfiguration().WithLevel(string(rule.Severity)))
	}
	for _, f := range findings {
		// Code hosts show only the message, so it contains the remedy.
		result := run.CreateResultForRule(f.Rule).WithRuleIndex(index[f.Rule]).WithLevel(string(f.Severity))
		result.WithMessage(sarif.NewTextMessage(f.Message + ". Remedy: " + f.Remedy))
		location := sarif.NewLocation()
		if f.File != "" && f.File != manifest.StandardInput {
			location.WithPhysicalLocation(sarif.NewPhysicalLocation().WithArtifactLocation(sarif.NewSimpleArtifactLocation(artifactURI(f.File))).
				WithRegion(sarif.NewSimpleRegion(max(f.Line, 1), max(f.Line, 1)))) // a code host shows nothing without a line
		}
		if f.Object != "" {
			location.WithLogicalLocations([]*sarif.LogicalLocation{sarif.NewLogicalLocation().WithFullyQualifiedName(f.Object)})
		}
		result.AddLocation(location)
	}
	report := sarif.NewReport()
	report.AddRun(run)
	encoder := json.NewEncoder(o.Out)
	encoder.SetIndent("", "  ")
	return encoder.Encode(report)
}

// artifactURI returns the URI of a file for SARIF. A relative path remains relative, so that a code host finds the file in the repository.
func artifactURI(file string) string {
	path := url.URL{Path: filepath.ToSlash(file)}
	if filepath.IsAbs(file) {
		path.Scheme = "file"
	}
	return path.String()
}
