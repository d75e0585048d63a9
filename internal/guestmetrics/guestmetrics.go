// Package guestmetrics serves KubeVirt's metrics about VMs, VMIs and their guests, so that KubeVirt's dashboards and alerts work. Names, labels, units and
// types are the same as in pkg/monitoring/metrics of KubeVirt 1.9, with which TestKubeVirtsNames compares them. They are served at a path of their own,
// because their labels have names of tenants' objects, of which there may be thousands. /metrics has no such labels.
package guestmetrics

import (
	"errors"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	ctrl "sigs.k8s.io/controller-runtime"
)

// Path is the HTTP path of the metrics of this package, beside /metrics.
const Path = "/metrics/guests"

// mostScrapes bounds the scrapes that are answered at once, for example by two instances of Prometheus: each takes 130 MB of memory with 3,000 guests.
// Further ones are answered with 503.
const mostScrapes = 2

// Handler returns a handler that serves the metrics of a collector.
func Handler(collector prometheus.Collector) (http.Handler, error) {
	registry := prometheus.NewRegistry()
	if err := registry.Register(collector); err != nil {
		return nil, err
	}
	// An error in one series, such as a text that is not UTF-8, does not affect the others.
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{
		ErrorHandling: promhttp.ContinueOnError, ErrorLog: scrapeLog{}, MaxRequestsInFlight: mostScrapes,
	}), nil
}

// scrapeLog writes the errors of a scrape to the log of the process.
type scrapeLog struct{}

func (scrapeLog) Println(message ...any) {
	for _, one := range message {
		if err, is := one.(error); is {
			ctrl.Log.WithName("guests").Error(errors.Unwrap(err), "a metric of a guest is left out", "reason", err.Error())
		}
	}
}

// metric is one of KubeVirt's metrics.
type metric struct {
	name, help string
	kind       prometheus.ValueType
	labels     []string
	desc       *prometheus.Desc
}

func newMetric(name string, kind prometheus.ValueType, help string, labels ...string) *metric {
	return &metric{name: name, help: help, kind: kind, labels: labels, desc: prometheus.NewDesc(name, help, labels, nil)}
}

// sendValue sends a value with its labels. It drops a value whose labels are invalid.
func (m *metric) sendValue(all chan<- prometheus.Metric, value float64, labels ...string) {
	if one, err := prometheus.NewConstMetric(m.desc, m.kind, value, labels...); err == nil {
		all <- one
	}
}

// Fact describes a metric for documentation and tests.
type Fact struct {
	Name, Help, Type string
	Labels           []string
}

// Facts returns the metrics of this package that the leader of the controller serves, and the ones that the API server of subresources serves.
func Facts() (controller, apiserver []Fact) {
	for _, one := range machineMetrics() {
		controller = append(controller, one.factOf())
	}
	for _, one := range allStatistics() {
		apiserver = append(apiserver, one.factOf())
	}
	return controller, apiserver
}

func (m *metric) factOf() Fact {
	kind := "gauge"
	if m.kind == counter {
		kind = "counter"
	}
	return Fact{Name: m.name, Help: m.help, Type: kind, Labels: m.labels}
}
