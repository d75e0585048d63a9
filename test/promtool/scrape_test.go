package promtool

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"
)

// scraped are the samples of some scrapes, one after the other, by series; NaN where a scrape had none.
type scraped map[string][]float64

// answer is what test/scrape prints of one process.
type answer struct{ Job, Pod, Namespace, Text string }

// TestScraped asks what webhook, controller and API server answer, as processes, what the alerts and the dashboard ask.
func TestScraped(t *testing.T) {
	command := exec.CommandContext(t.Context(), "go", "run", "./test/scrape")
	command.Dir, command.Stderr = "../..", os.Stderr
	out, err := command.Output()
	if err != nil {
		t.Fatal(err)
	}
	var scrapes [][]answer
	if err := json.Unmarshal(out, &scrapes); err != nil || len(scrapes) == 0 {
		t.Fatalf("%d scrapes: %v", len(scrapes), err)
	}
	all := scraped{}
	for n, answers := range scrapes {
		for _, one := range answers {
			all.add(t, one, n)
		}
	}
	last := scrapes[len(scrapes)-1]
	t.Run("names and types are as Prometheus' and Kubernetes' conventions want them", func(t *testing.T) { lint(t, last) })
	t.Run("the page about metrics has each", func(t *testing.T) { documented(t, last) })
	t.Run("alerts ask for metrics that exist", func(t *testing.T) { alertsExist(t, all) })
	t.Run("no panel is empty", func(t *testing.T) { panels(t, all) })
	t.Run("no label has a name of a tenant's object", func(t *testing.T) { nameless(t, all) })
}

// nameless: what tenants named in test/scrape is in no series of Kiln.
func nameless(t *testing.T, all scraped) {
	for series := range all {
		for _, name := range []string{"starts", "waits", "wrong", "default", "small", "later"} {
			if strings.Contains(series, "kiln_") && strings.Contains(series, `"`+name+`"`) {
				t.Error(series)
			}
		}
	}
}

type sample struct {
	series string
	value  float64
}

func with(labels map[string]string, name, value string) map[string]string {
	all := maps.Clone(labels)
	all[name] = value
	return all
}

// add reads an answer of /metrics with Prometheus' parser, and adds what Prometheus adds. Of the API server only what is about admission webhooks and
// APIServices is kept: it has thousands of series.
func (s scraped) add(t *testing.T, one answer, n int) {
	t.Helper()
	target := map[string]string{"job": one.Job, "pod": one.Pod, "namespace": one.Namespace}
	s.set(sample{labels.FromMap(with(target, "__name__", "up")).String(), 1}, n)
	parser, err := textparse.New([]byte(one.Text), "text/plain", labels.NewSymbolTable(), textparse.ParserOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for {
		entry, err := parser.Next()
		if errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatal(err)
		}
		if entry != textparse.EntrySeries {
			continue
		}
		_, _, value := parser.Series()
		var found labels.Labels
		parser.Labels(&found)
		name := found.Get("__name__")
		if one.Job == "apiserver" && !strings.HasPrefix(name, "apiserver_admission_webhook") && name != "aggregator_unavailable_apiservice" {
			continue
		}
		of := found.Map()
		maps.Copy(of, target)
		s.set(sample{labels.FromMap(of).String(), value}, n)
	}
}

func (s scraped) set(found sample, n int) {
	for len(s[found.series]) < n {
		s[found.series] = append(s[found.series], math.NaN())
	}
	s[found.series] = append(s[found.series], found.value)
}

// load returns the scrapes in the notation of promqltest, a minute apart.
func (s scraped) load() string {
	var text strings.Builder
	text.WriteString("load 1m\n")
	for _, series := range slices.Sorted(maps.Keys(s)) {
		fmt.Fprintf(&text, "  %s", series)
		for _, value := range s[series] {
			if math.IsNaN(value) {
				text.WriteString(" _")
			} else {
				text.WriteString(" " + strconv.FormatFloat(value, 'g', -1, 64))
			}
		}
		text.WriteString("\n")
	}
	return text.String()
}

// names are the metrics that were scraped.
func (s scraped) names() map[string]bool {
	all := map[string]bool{}
	for series := range s {
		name, _, _ := strings.Cut(strings.TrimPrefix(series, `{__name__="`), `"`)
		all[name] = true
	}
	return all
}

// lint checks Kiln's own metrics with promlint. It leaves out the metrics of Go, client-go and controller-runtime.
func lint(t *testing.T, answers []answer) {
	for _, one := range answers {
		problems, err := promlint.New(strings.NewReader(one.Text)).Lint()
		if err != nil {
			t.Fatal(err)
		}
		for _, problem := range problems {
			if strings.HasPrefix(problem.Metric, "kiln_") {
				t.Errorf("%s: %s: %s", one.Job, problem.Metric, problem.Text)
			}
		}
	}
}
