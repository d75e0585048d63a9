package reference

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/kilnvm/kiln/certs"
	"github.com/kilnvm/kiln/internal/admission"
	"github.com/kilnvm/kiln/internal/clusterconfig"
	"github.com/kilnvm/kiln/internal/command"
	"github.com/kilnvm/kiln/internal/guestmetrics"
	"github.com/kilnvm/kiln/internal/guestpolicy"
	"github.com/kilnvm/kiln/internal/kubevirt/guestcontroller"
	"github.com/kilnvm/kiln/internal/lifecycle"
	"github.com/kilnvm/kiln/internal/node"
	"github.com/kilnvm/kiln/internal/nodecpu/observer"
	"github.com/kilnvm/kiln/internal/policyreport"
	"github.com/kilnvm/kiln/internal/snapshots"
	"github.com/kilnvm/kiln/internal/subresource"
	"github.com/kilnvm/kiln/test/golden"
	"github.com/prometheus/client_golang/prometheus"
)

const metricsHeading = `# Metrics

Every metric of Kiln. 'make golden' writes this page from the collectors that the programs register; 'test/promtool' compares it with what they serve.
Besides them, '/metrics' has the metrics of Go, client-go and controller-runtime: 'workqueue_depth', 'controller_runtime_reconcile_errors_total',
'leader_election_master_status', 'controller_runtime_webhook_requests_in_flight' and more.

Values of labels of '/metrics' are constants of Kiln, except 'policy' and 'frontend_profile', which are names of administrators' objects. No label has a text,
a name or a namespace of a tenant: tenants cannot make series. '/metrics/guests' has KubeVirt's metrics, whose labels name tenants' objects:
[guest-metrics.md](../how-to/guest-metrics.md).
`

// TestReference writes the page about metrics.
func TestReference(t *testing.T) {
	var page strings.Builder
	page.WriteString(metricsHeading)
	for _, program := range []struct {
		name       string
		collectors []prometheus.Collector
	}{
		{"Webhook, controller and API server of subresources", command.Metrics(&clusterconfig.Watcher{})},
		{"Webhook and API server of subresources", []prometheus.Collector{&certs.Served{}}},
		{"Webhook", append(admission.Metrics(), guestpolicy.Violations)},
		{"API server of subresources", []prometheus.Collector{subresource.NewStreams().Metric(), guestmetrics.NewGuests().Metric()}},
		{"Controller", slices.Concat(snapshots.Metrics(), guestcontroller.Metrics(), policyreport.Metrics(), observer.Metrics(),
			[]prometheus.Collector{&lifecycle.Counts{}})},
		{"`launcher node`", []prometheus.Collector{node.StraysEnded}},
	} {
		var rows []string
		for _, collector := range program.collectors {
			rows = append(rows, rowsOf(t, collector)...)
		}
		slices.Sort(rows)
		fmt.Fprintf(&page, "\n## %s\n\n| metric | type | labels | meaning |\n|---|---|---|---|\n%s", program.name, strings.Join(rows, ""))
	}
	controller, apiserver := guestmetrics.Facts()
	for _, program := range []struct {
		name  string
		facts []guestmetrics.Fact
	}{{"Controller, at `" + guestmetrics.Path + "`", controller}, {"API server of subresources, at `" + guestmetrics.Path + "`", apiserver}} {
		var rows []string
		for _, fact := range program.facts {
			rows = append(rows, fmt.Sprintf("| `%s` | %s | `%s` | %s |\n", fact.Name, fact.Type, strings.Join(fact.Labels, "`, `"), fact.Help))
		}
		slices.Sort(rows)
		fmt.Fprintf(&page, "\n## %s\n\n| metric | type | labels | meaning |\n|---|---|---|---|\n%s", program.name, strings.Join(rows, ""))
	}
	golden.Compare(t, "../../docs/reference/metrics.md", page.String())
}

// described is how client_golang prints a Desc, which has no other way to read it.
var described = regexp.MustCompile(`^Desc\{fqName: "([a-z_]+)", help: "(.*?)"(?:, unit: "[a-z]*")?, constLabels: \{(.*)\}, variableLabels: \{(.*)\}\}$`)

func rowsOf(t *testing.T, collector prometheus.Collector) (rows []string) {
	t.Helper()
	all := make(chan *prometheus.Desc, 100)
	collector.Describe(all)
	close(all)
	for desc := range all {
		parts := described.FindStringSubmatch(desc.String())
		if parts == nil {
			t.Fatalf("cannot read %s", desc)
		}
		var labels []string
		for _, label := range strings.FieldsFunc(parts[3]+","+parts[4], func(r rune) bool { return r == ',' }) {
			name, _, _ := strings.Cut(label, "=")
			labels = append(labels, "`"+name+"`")
		}
		meaning := strings.ReplaceAll(parts[2], "|", `\|`)
		rows = append(rows, fmt.Sprintf("| `%s` | %s | %s | %s |\n", parts[1], typeOf(collector), strings.Join(labels, ", "), meaning))
	}
	return rows
}

// typeOf returns the type that a collector's metrics have. Those that are no vector and no single metric are Kiln's own, and show what is now.
func typeOf(collector prometheus.Collector) string {
	switch collector.(type) {
	case *prometheus.HistogramVec:
		return "histogram"
	case prometheus.Gauge, *prometheus.GaugeVec:
		return "gauge"
	case prometheus.Counter, *prometheus.CounterVec:
		return "counter"
	}
	return "gauge"
}
