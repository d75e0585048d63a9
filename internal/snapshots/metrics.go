package snapshots

import "github.com/prometheus/client_golang/prometheus"

// Operations and their results.
const (
	operationSnapshot = "snapshot"
	operationRestore  = "restore"
	operationClone    = "clone"
	resultSucceeded   = "succeeded"
	resultFailed      = "failed"
)

var ends = prometheus.NewCounterVec(prometheus.CounterOpts{
	Name: "kiln_snapshot_operations_total",
	Help: "Snapshots, restores and clones of VMs that have ended, by operation and result. A restore that may not be activated has failed.",
}, []string{"operation", "result"})

// Metrics are the metrics of this package.
func Metrics() []prometheus.Collector {
	for _, operation := range []string{operationSnapshot, operationRestore, operationClone} {
		ends.WithLabelValues(operation, resultSucceeded)
		ends.WithLabelValues(operation, resultFailed)
	}
	return []prometheus.Collector{ends}
}

// ended counts an end that was written.
func ended(operation, result string, err error) error {
	if err == nil {
		ends.WithLabelValues(operation, result).Inc()
	}
	return err
}
