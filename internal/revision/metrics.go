package revision

import "github.com/prometheus/client_golang/prometheus"

// Results of a write.
const (
	resultCreated = "created"
	// resultShared: another VM or replica has written the revision before.
	resultShared = "shared"
	resultFailed = "failed"
)

var (
	writesTotal = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "kiln_controllerrevision_writes_total",
		Help: "Writes of ControllerRevisions by result: created, shared (it exists with this content) or failed. What a cache has is not written at all.",
	}, []string{"result"})
	removalsTotal = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "kiln_controllerrevision_removals_total",
		Help: "ControllerRevisions that the collector has removed because no VM and no VMI refers to them.",
	})
)

// Metrics returns the metrics of this package.
func Metrics() []prometheus.Collector {
	for _, result := range []string{resultCreated, resultShared, resultFailed} {
		writesTotal.WithLabelValues(result)
	}
	return []prometheus.Collector{writesTotal, removalsTotal}
}
