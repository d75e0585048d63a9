package operation

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Kind is a kind of operation, as metrics name it.
type Kind string

// The kinds of operations.
const (
	Snapshot Kind = "snapshot"
	Restore  Kind = "restore"
	Clone    Kind = "clone"
)

const (
	resultSucceeded = "succeeded"
	resultFailed    = "failed"
)

var endedOperations = prometheus.NewCounterVec(prometheus.CounterOpts{
	Name: "kiln_snapshot_operations_total",
	Help: "Snapshots, restores and clones of VMs that have ended, by operation and result. A restore that may not be activated has failed.",
}, []string{"operation", "result"})

// Metrics returns the metrics of operations.
func Metrics() []prometheus.Collector {
	for _, kind := range []Kind{Snapshot, Restore, Clone} {
		endedOperations.WithLabelValues(string(kind), resultSucceeded)
		endedOperations.WithLabelValues(string(kind), resultFailed)
	}
	return []prometheus.Collector{endedOperations}
}

// CountSuccess counts an operation as succeeded if write is nil: write is the error of the request that ended it. It returns write.
func CountSuccess(kind Kind, write error) error { return countEnd(kind, resultSucceeded, write) }

// WarnAfterFailure is WarnAfterWrite for the write that ends an operation as failed. It also counts the operation.
func (c *Cluster) WarnAfterFailure(kind Kind, write error, about client.Object, reason, note string) error {
	return countEnd(kind, resultFailed, c.WarnAfterWrite(write, about, reason, note))
}

func countEnd(kind Kind, result string, write error) error {
	if write == nil {
		endedOperations.WithLabelValues(string(kind), result).Inc()
	}
	return write
}
