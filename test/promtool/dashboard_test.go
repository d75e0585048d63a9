package promtool

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
)

// panel is what is asked of a panel of the dashboard.
type panel struct {
	Title, Type string
	Targets     []struct{ Expr string }
}

// dashboard reads the panels that ask something.
func dashboard(t *testing.T) (asking []panel) {
	t.Helper()
	raw, err := os.ReadFile(overlay + "dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	var whole struct{ Panels []panel }
	if err := json.Unmarshal(raw, &whole); err != nil {
		t.Fatal(err)
	}
	for _, panel := range whole.Panels {
		if panel.Type != "row" {
			asking = append(asking, panel)
		}
	}
	if len(asking) < 10 {
		t.Fatalf("%d panels: the test reads another file", len(asking))
	}
	return asking
}

// interval replaces Grafana's variable by what it is at a scrape interval of 30 s.
func interval(expr string) string { return strings.ReplaceAll(expr, "$__rate_interval", "2m") }

// TestPanelsAsk: each panel's title is a question, and Prometheus can read its queries.
func TestPanelsAsk(t *testing.T) {
	for _, panel := range dashboard(t) {
		if !strings.HasSuffix(panel.Title, "?") || len(panel.Targets) == 0 {
			t.Errorf("'%s' asks nothing", panel.Title)
		}
		for _, target := range panel.Targets {
			asked(t, panel.Title, interval(target.Expr))
		}
	}
}

// asked returns the metrics that a query names.
func asked(t *testing.T, of, query string) (names []string) {
	t.Helper()
	expression, err := parser.NewParser(parser.Options{}).ParseExpr(query)
	if err != nil {
		t.Fatalf("%s: %v", of, err)
	}
	for _, selectors := range parser.ExtractSelectors(expression) {
		for _, matcher := range selectors {
			if matcher.Name == "__name__" {
				names = append(names, matcher.Value)
			}
		}
	}
	if len(names) == 0 {
		t.Errorf("%s: '%s' names no metric", of, query)
	}
	return names
}

// alertsExist: an alert on a metric that nobody has never fires.
func alertsExist(t *testing.T, all scraped) {
	known := all.names()
	for _, rule := range rules(t) {
		for _, name := range asked(t, rule.Alert, rule.Expr) {
			if !known[name] {
				t.Errorf("%s: no process has metric '%s'", rule.Alert, name)
			}
		}
	}
}

// panels evaluates each query of the dashboard over what was scraped.
func panels(t *testing.T, all scraped) {
	known := all.names()
	storage := promqltest.LoadedStorage(t, all.load())
	defer storage.Close()
	engine := promqltest.NewTestEngine(t, false, 0, 10_000_000)
	for _, panel := range dashboard(t) {
		for _, target := range panel.Targets {
			for _, name := range asked(t, panel.Title, interval(target.Expr)) {
				if !known[name] {
					t.Errorf("'%s': no process has metric '%s'", panel.Title, name)
				}
			}
			query, err := engine.NewInstantQuery(t.Context(), storage, nil, interval(target.Expr), time.Unix(120, 0))
			if err != nil {
				t.Fatalf("'%s': %v", panel.Title, err)
			}
			result := query.Exec(t.Context())
			if found, err := result.Vector(); err != nil || len(found) == 0 {
				t.Errorf("'%s' is empty: %s: %v", panel.Title, target.Expr, err)
			}
			query.Close()
		}
	}
}

// row is a row of the page about metrics.
var row = regexp.MustCompile("(?m)^\\| `(kiln_[a-z_]+)` \\| (\\w+) \\|")

// documented: the page is made from what the packages say, and the processes register no other metric.
func documented(t *testing.T, answers []answer) {
	page, err := os.ReadFile("../../docs/reference/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	types := map[string]string{}
	for _, found := range row.FindAllStringSubmatch(string(page), -1) {
		types[found[1]] = found[2]
	}
	text := ""
	for _, one := range answers {
		text += one.Text
	}
	served := map[string]bool{}
	for line := range strings.Lines(text) {
		if words := strings.Fields(line); len(words) == 4 && words[1] == "TYPE" && strings.HasPrefix(words[2], "kiln_") {
			served[words[2]] = true
			if types[words[2]] != words[3] {
				t.Errorf("%s is a %s; the page says '%s'", words[2], words[3], types[words[2]])
			}
		}
	}
	for name := range types {
		if !served[name] && !strings.HasPrefix(name, "kiln_launcher_") {
			t.Errorf("the page has %s, and no process", name)
		}
	}
}
