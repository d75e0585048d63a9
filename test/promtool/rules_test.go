package promtool

import (
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
	"sigs.k8s.io/yaml"
)

const overlay = "../../manifests/alerts/"

// rules reads the PrometheusRule as Prometheus does, which checks expressions, durations, labels and templates.
func rules(t *testing.T) []rulefmt.Rule {
	t.Helper()
	raw, err := os.ReadFile(overlay + "rules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var object struct{ Spec map[string]any }
	if err := yaml.Unmarshal(raw, &object); err != nil {
		t.Fatal(err)
	}
	spec, err := yaml.Marshal(object.Spec)
	if err != nil {
		t.Fatal(err)
	}
	groups, errs := rulefmt.Parse(spec, false, model.LegacyValidation, parser.NewParser(parser.Options{}), slog.Default())
	if len(errs) > 0 || len(groups.Groups) != 1 {
		t.Fatalf("%d groups: %v", len(groups.Groups), errs)
	}
	return groups.Groups[0].Rules
}

// TestAlertsHaveRunbooks: each alert says what it means and leads to a heading of the page.
func TestAlertsHaveRunbooks(t *testing.T) {
	page, err := os.ReadFile("../../docs/how-to/runbooks.md")
	if err != nil {
		t.Fatal(err)
	}
	headings := map[string]bool{}
	for line := range strings.Lines(string(page)) {
		if name, is := strings.CutPrefix(line, "## Kiln"); is {
			headings["Kiln"+strings.TrimSpace(name)] = true
		}
	}
	const url = "https://github.com/kilnvm/kiln/blob/main/docs/how-to/runbooks.md#"
	for _, rule := range rules(t) {
		if !headings[rule.Alert] || rule.Annotations["runbook_url"] != url+strings.ToLower(rule.Alert) {
			t.Errorf("%s has no runbook: '%s'", rule.Alert, rule.Annotations["runbook_url"])
		}
		delete(headings, rule.Alert)
		if severity := rule.Labels["severity"]; severity != "critical" && severity != "warning" ||
			rule.Annotations["summary"] == "" || rule.Annotations["description"] == "" {
			t.Errorf("%s: severity '%s', annotations %v", rule.Alert, severity, rule.Annotations)
		}
	}
	for alert := range headings {
		t.Errorf("%s has a runbook and is no alert", alert)
	}
}

// healthy are the series of an installation in which all is well, at an interval of a minute, over three hours.
var healthy = map[string]string{
	`up{job="kiln-webhook", pod="w1"}`:    `1x180`,
	`up{job="kiln-controller", pod="c1"}`: `1x180`,
	`up{job="kiln-apiserver", pod="a1"}`:  `1x180`,
	`up{job="kiln-apiserver", pod="a2"}`:  `1x90 0x90`,
	`kiln_readiness_check{job="kiln-apiserver", namespace="kiln-system", pod="a1", check="certificate"}`:                                `1x180`,
	`aggregator_unavailable_apiservice{name="v1.subresources.kubevirt.io"}`:                                                             `0x60 1x1 0x119`,
	`aggregator_unavailable_apiservice{name="v1alpha3.subresources.kubevirt.io"}`:                                                       `0x180`,
	`aggregator_unavailable_apiservice{name="v1beta1.metrics.k8s.io"}`:                                                                  `1x180`,
	`kiln_webhook_certificate_not_after_seconds{job="kiln-apiserver", namespace="kiln-system", pod="a1"}`:                               `7776000x180`,
	`kiln_readiness_check{job="kiln-webhook", namespace="kiln-system", pod="w1", check="informers"}`:                                    `1x180`,
	`kiln_readiness_check{job="kiln-webhook", namespace="kiln-system", pod="w2", check="informers"}`:                                    `1x180`,
	`apiserver_admission_webhook_rejection_count{name="virtualmachines.mutate.kilnvm.io", error_type="no_error"}`:                       `0+5x180`,
	`apiserver_admission_webhook_rejection_count{name="another.example", error_type="calling_webhook_error"}`:                           `0+5x180`,
	`kiln_webhook_certificate_not_after_seconds{job="kiln-webhook", namespace="kiln-system", pod="w1"}`:                                 `7776000x180`,
	`kiln_admission_duration_seconds_count{job="kiln-webhook", pod="w1", outcome="allowed"}`:                                            `0+600x180`,
	`kiln_admission_duration_seconds_count{job="kiln-webhook", pod="w1", outcome="denied"}`:                                             `0+300x180`,
	`kiln_admission_duration_seconds_count{job="kiln-webhook", pod="w1", outcome="failed"}`:                                             `0x60 0+1x120`,
	`kiln_admission_duration_seconds_count{job="kiln-webhook", pod="w1", outcome="busy"}`:                                               `0x180`,
	`kiln_admission_duration_seconds_bucket{job="kiln-webhook", pod="w1", outcome="allowed", le="0.01"}`:                                `0+598x180`,
	`kiln_admission_duration_seconds_bucket{job="kiln-webhook", pod="w1", outcome="allowed", le="1"}`:                                   `0+600x180`,
	`kiln_admission_duration_seconds_bucket{job="kiln-webhook", pod="w1", outcome="allowed", le="5"}`:                                   `0+600x180`,
	`kiln_admission_duration_seconds_bucket{job="kiln-webhook", pod="w1", outcome="allowed", le="+Inf"}`:                                `0+600x180`,
	`kiln_admission_panics_total{job="kiln-webhook", pod="w1"}`:                                                                         `0x180`,
	`leader_election_master_status{job="kiln-controller", pod="c1", name="kiln-controllers"}`:                                           `1x180`,
	`leader_election_master_status{job="kiln-controller", pod="c2", name="kiln-controllers"}`:                                           `0x180`,
	`controller_runtime_reconcile_errors_total{job="kiln-controller", controller="virtualmachine"}`:                                     `0+1x180`,
	`controller_runtime_reconcile_errors_total{job="others", controller="pods"}`:                                                        `0+100x180`,
	`kiln_virtualmachines_unpinned_oldest_timestamp_seconds{job="kiln-controller", pod="c1"}`:                                           `_x60 3600x30 _x90`,
	`kiln_guest_policy_violations_total{job="kiln-webhook", policy="sizes", action="Deny"}`:                                             `0+5x180`,
	`kiln_guest_policy_violations_total{job="kiln-webhook", policy="sizes", action="Failed"}`:                                           `0x180`,
	`kiln_guest_cpus{job="kiln-controller", offered="somewhere"}`:                                                                       `7x180`,
	`kiln_guest_cpus{job="kiln-controller", offered="nowhere"}`:                                                                         `0x60 1x5 0x115`,
	`kiln_controllerrevisions{job="kiln-controller", state="used"}`:                                                                     `900x180`,
	`kiln_controllerrevisions{job="kiln-controller", state="marked"}`:                                                                   `10x180`,
	`kiln_virtualmachines{job="kiln-controller", status="Running"}`:                                                                     `500x180`,
	`kiln_virtualmachineinstances{job="kiln-controller", phase="Running"}`:                                                              `500x180`,
	`kiln_configuration_failures_total{job="kiln-webhook", namespace="kiln-system", pod="w1"}`:                                          `0x180`,
	`kiln_configuration_info{job="kiln-webhook", pod="w1", digest="a"}`:                                                                 `1x180`,
	`kiln_configuration_info{job="kiln-webhook", pod="w2", digest="a"}`:                                                                 `1x100 _x80`,
	`kiln_configuration_info{job="kiln-webhook", pod="w2", digest="b", frontend_profile="the pod reads a change later than the other"}`: `_x175 1x5`,
}

// faults are what is different where an alert must fire. An empty text removes a series.
var faults = map[string]map[string]string{
	"KilnWebhookDown":     {`up{job="kiln-webhook", pod="w1"}`: `0x180`},
	"KilnWebhookNotReady": {`kiln_readiness_check{job="kiln-webhook", namespace="kiln-system", pod="w2", check="informers"}`: `0x180`},
	"KilnWebhookUnreachable": {
		`apiserver_admission_webhook_rejection_count{name="virtualmachines.mutate.kilnvm.io", error_type="calling_webhook_error"}`: `0+1x180`,
	},
	"KilnAPIServerDown":        {`up{job="kiln-apiserver", pod="a1"}`: `0x180`, `up{job="kiln-apiserver", pod="a2"}`: `0x180`},
	"KilnAPIServerNotReady":    {`kiln_readiness_check{job="kiln-apiserver", namespace="kiln-system", pod="a1", check="certificate"}`: `0x180`},
	"KilnAPIServerUnavailable": {`aggregator_unavailable_apiservice{name="v1.subresources.kubevirt.io"}`: `0x60 1x120`},
	"KilnCertificateEnds":      {`kiln_webhook_certificate_not_after_seconds{job="kiln-webhook", namespace="kiln-system", pod="w1"}`: `600000x180`},
	"KilnAdmissionFails":       {`kiln_admission_duration_seconds_count{job="kiln-webhook", pod="w1", outcome="failed"}`: `0+20x180`},
	"KilnAdmissionSlow": {
		`kiln_admission_duration_seconds_bucket{job="kiln-webhook", pod="w1", outcome="allowed", le="0.01"}`: `0+300x180`,
		`kiln_admission_duration_seconds_bucket{job="kiln-webhook", pod="w1", outcome="allowed", le="1"}`:    `0+590x180`,
	},
	"KilnAdmissionBusy":   {`kiln_admission_duration_seconds_count{job="kiln-webhook", pod="w1", outcome="busy"}`: `0+1x180`},
	"KilnAdmissionPanics": {`kiln_admission_panics_total{job="kiln-webhook", pod="w1"}`: `0x90 1x90`},
	"KilnControllerNoLeader": {
		`leader_election_master_status{job="kiln-controller", pod="c1", name="kiln-controllers"}`: `0x180`,
	},
	"KilnReconcileErrors":        {`controller_runtime_reconcile_errors_total{job="kiln-controller", controller="virtualmachine"}`: `0+30x180`},
	"KilnVirtualMachineUnpinned": {`kiln_virtualmachines_unpinned_oldest_timestamp_seconds{job="kiln-controller", pod="c1"}`: `60x180`},
	"KilnGuestPolicyFails":       {`kiln_guest_policy_violations_total{job="kiln-webhook", policy="sizes", action="Failed"}`: `0+1x180`},
	"KilnGuestCPUNowhere":        {`kiln_guest_cpus{job="kiln-controller", offered="nowhere"}`: `0x60 1x120`},
	"KilnRevisionsGrow":          {`kiln_controllerrevisions{job="kiln-controller", state="marked"}`: `9000x180`},
	"KilnConfigurationUnreadable": {
		`kiln_configuration_failures_total{job="kiln-webhook", namespace="kiln-system", pod="w1"}`: `0x90 1x90`,
	},
	"KilnConfigurationDiffers": {`kiln_configuration_info{job="kiln-webhook", pod="w2", digest="b"}`: `1x180`},
}

// absences are series without which an alert must fire too.
var absences = map[string]string{
	"KilnWebhookDown":        `up{job="kiln-webhook", pod="w1"}`,
	"KilnControllerNoLeader": `leader_election_master_status{job="kiln-controller", pod="c1", name="kiln-controllers"}`,
}

// uninstalled are series that an installation without the API server of subresources lacks: no alert fires there.
var uninstalled = []string{`up{job="kiln-apiserver"`, `kiln_readiness_check{job="kiln-apiserver"`, `aggregator_unavailable_apiservice{name="v1.`,
	`aggregator_unavailable_apiservice{name="v1alpha3.`}

// TestAlertsFire: each alert fires on its fault, and none does where all is well. No other fires with it.
func TestAlertsFire(t *testing.T) {
	all := rules(t)
	if firing := firing(t, all, healthy); len(firing) > 0 {
		t.Errorf("where all is well, these fire: %v", firing)
	}
	without := maps.Clone(healthy)
	maps.DeleteFunc(without, func(series, _ string) bool {
		return slices.ContainsFunc(uninstalled, func(prefix string) bool { return strings.HasPrefix(series, prefix) })
	})
	if firing := firing(t, all, without); len(firing) > 0 || len(healthy)-len(without) != 5 {
		t.Errorf("without the API server of subresources, which has %d series here, these fire: %v", len(healthy)-len(without), firing)
	}
	for _, rule := range all {
		if faults[rule.Alert] == nil {
			t.Errorf("%s: nobody says when it must fire", rule.Alert)
		}
	}
	try := func(alert string, series map[string]string) {
		if firing := firing(t, all, series); !slices.Equal(firing, []string{alert}) {
			t.Errorf("of the fault of %s, these fire: %v", alert, firing)
		}
	}
	for alert, fault := range faults {
		series := maps.Clone(healthy)
		maps.Copy(series, fault)
		try(alert, series)
	}
	for alert, gone := range absences {
		series := maps.Clone(healthy)
		delete(series, gone)
		try(alert, series)
	}
}

// firing returns the alerts that fire at some time of the three hours: those whose expression has had an element for as long as 'for' says.
func firing(t *testing.T, all []rulefmt.Rule, series map[string]string) (names []string) {
	t.Helper()
	var load strings.Builder
	load.WriteString("load 1m\n")
	for _, name := range slices.Sorted(maps.Keys(series)) {
		fmt.Fprintf(&load, "  %s %s\n", name, series[name])
	}
	storage := promqltest.LoadedStorage(t, load.String())
	defer storage.Close()
	engine := promqltest.NewTestEngine(t, false, 0, 1_000_000)
	for _, rule := range all {
		query, err := engine.NewRangeQuery(t.Context(), storage, nil, rule.Expr, time.Unix(600, 0), time.Unix(180*60, 0), time.Minute)
		if err != nil {
			t.Fatalf("%s: %v", rule.Alert, err)
		}
		result := query.Exec(t.Context())
		if result.Err != nil {
			t.Fatalf("%s: %v", rule.Alert, result.Err)
		}
		matrix, err := result.Matrix()
		if err != nil {
			t.Fatalf("%s: %v", rule.Alert, err)
		}
		if slices.ContainsFunc(matrix, func(of promql.Series) bool { return lasts(of.Floats, time.Duration(rule.For)) }) {
			names = append(names, rule.Alert)
		}
		query.Close()
	}
	return names
}

// lasts reports whether an element is there at each minute of a time.
func lasts(points []promql.FPoint, long time.Duration) bool {
	since := 0
	for i, point := range points {
		if i > 0 && point.T-points[i-1].T > time.Minute.Milliseconds() {
			since = i
		}
		if time.Duration(point.T-points[since].T)*time.Millisecond >= long {
			return true
		}
	}
	return false
}
