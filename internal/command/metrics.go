package command

import (
	"net/http"

	"github.com/kilnvm/kiln/internal/clusterconfig"
	"github.com/kilnvm/kiln/internal/revision"
	"github.com/kilnvm/kiln/internal/version"
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
)

// ready has the results of /readyz as a metric, for users who watch a process only by its metrics.
var ready = prometheus.NewGaugeVec(prometheus.GaugeOpts{
	Name: "kiln_readiness_check",
	Help: "1 if a check of /readyz succeeded when it was made last, else 0.",
}, []string{"check"})

// Metrics returns the metrics that webhook and controller have in common.
func Metrics(configuration *clusterconfig.Watcher) []prometheus.Collector {
	return append(revision.Metrics(), ready, buildInfo(), clusterconfig.Failures, configuration)
}

// AddReadyzCheck adds a check to /readyz, and sets a metric to its result.
func (e *Engine) AddReadyzCheck(name string, check healthz.Checker) error {
	found := ready.WithLabelValues(name)
	return e.Manager.AddReadyzCheck(name, func(r *http.Request) error {
		err := check(r)
		if err != nil {
			found.Set(0)
		} else {
			found.Set(1)
		}
		return err
	})
}

// buildInfo returns a metric whose labels are the version of the program.
func buildInfo() prometheus.Collector {
	build := version.Read()
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "kiln_build_info", Help: "Always 1. The labels are the version of the program, its revision, and the version of Go.",
		ConstLabels: prometheus.Labels{"version": build.Version, "revision": build.Revision, "goversion": build.Go},
	})
	info.Set(1)
	return info
}
