package promtool

import (
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
	"sigs.k8s.io/yaml"
)

// TestRecordedSeries: what is recorded of guests for KubeVirt's dashboards asks for metrics that the page about metrics has, and is what its name says.
func TestRecordedSeries(t *testing.T) {
	raw, err := os.ReadFile("../../manifests/prometheus/rules.yaml")
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
	page, err := os.ReadFile("../../docs/reference/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	storage := promqltest.LoadedStorage(t, `load 1m
  kubevirt_vmi_memory_available_bytes{name="a", namespace="n", node="x"} 100
  kubevirt_vmi_memory_usable_bytes{name="a", namespace="n", node="x"} 40
  kubevirt_vmi_vcpu_seconds_total{name="a", namespace="n", node="x", id="0", state="running"} 1
  kubevirt_vmi_vcpu_seconds_total{name="a", namespace="n", node="x", id="1", state="blocked"} 1
  kubevirt_vm_info{name="a", namespace="n", status="running"} 1
  kubevirt_vm_info{name="b", namespace="n", status="stopped"} 1
  kubevirt_vmi_info{name="a", namespace="n", node="x", phase="running"} 1
`)
	defer storage.Close()
	engine := promqltest.NewTestEngine(t, false, 0, 10_000)
	want := map[string]string{
		"vmi:kubevirt_vmi_memory_used_bytes:sum": `{name="a", namespace="n", node="x"} 60`,
		"vmi:kubevirt_vmi_vcpu:count":            `{name="a", namespace="n", node="x"} 2`,
		"namespace:kubevirt_vm:sum":              `{namespace="n"} 2`,
		"node:kubevirt_vmi_phase:sum":            `{node="x", phase="running"} 1`,
	}
	for _, rule := range groups.Groups[0].Rules {
		for _, name := range asked(t, rule.Record, rule.Expr) {
			if !strings.Contains(string(page), "| `"+name+"` |") {
				t.Errorf("%s: nobody serves '%s'", rule.Record, name)
			}
		}
		query, err := engine.NewInstantQuery(t.Context(), storage, nil, rule.Expr, time.Unix(60, 0))
		if err != nil {
			t.Fatal(err)
		}
		found, err := query.Exec(t.Context()).Vector()
		if err != nil || len(found) != 1 {
			t.Fatalf("%s: %v, %v", rule.Record, found, err)
		}
		if got := fmt.Sprint(found[0].Metric, " ", found[0].F); got != want[rule.Record] {
			t.Errorf("%s is %s, want %s", rule.Record, got, want[rule.Record])
		}
		delete(want, rule.Record)
		query.Close()
	}
	if len(want) > 0 {
		t.Errorf("not recorded: %v", want)
	}
}
