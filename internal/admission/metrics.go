package admission

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// outcome is the result of a review. It is a label of a metric, so the list is closed.
type outcome string

const (
	allowed outcome = "allowed"
	// denied: the user has made a mistake.
	denied outcome = "denied"
	// warned: the user has made a mistake, and admission only warns.
	warned outcome = "warned"
	// busy: there was no capacity for the review.
	busy outcome = "busy"
	// outdated: the object was made from another object, which has changed since.
	outdated outcome = "outdated"
	// failed: a fault of Kiln or of the cluster, a review that cannot be read, or a caller that has gone.
	failed outcome = "failed"
)

// No label contains text of a tenant: paths, outcomes and rules are constants of this program.
var (
	duration = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "kiln_admission_duration_seconds",
		Help: "Time from the headers of an AdmissionReview to its answer, by path and outcome: allowed, denied (422), warned (admitted in the place of 422), " +
			"outdated (409), busy (429) or failed (all other codes). Where admission only warns, the last three are admitted, too.",
		// From an object that is skipped to the timeout of the webhook configurations.
		Buckets: []float64{0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5},
	}, []string{"path", "outcome"})
	rejections = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "kiln_admission_rejections_total",
		Help: "Refused requests by rule of docs/reference/rules.md, or other. A request that breaks several rules counts once for each.",
	}, []string{"rule"})
	wouldReject = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "kiln_admission_warned_total",
		Help: "Requests that were admitted because admission only warns, by rule of docs/reference/rules.md, or other. A request that breaks several rules " +
			"counts once for each.",
	}, []string{"rule"})
	inFlight = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "kiln_admission_in_flight_bytes",
		Help: "Size of the AdmissionReviews that are being read and judged.",
	})
	capacityBytes = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "kiln_admission_capacity_bytes",
		Help: "Size of the AdmissionReviews that are read and judged at the same time at most. A review that would exceed it waits, " +
			"and then is answered with code 429.",
	})
	panics = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "kiln_admission_panics_total",
		Help: "Panics while a request was judged. The log has each with the UID of its request.",
	})
)

// alerted are the outcomes that alerts count.
var alerted = []outcome{busy, failed}

// Metrics returns the metrics of this package. The label sets that alerts use exist from the start, so that a rate counts the first event, too. Other label
// sets do not, because a histogram has sixteen lines, and there are hundreds of rules. One rule shows that each counter of rules exists.
func Metrics() []prometheus.Collector {
	for _, path := range hookPaths() {
		for _, of := range alerted {
			duration.WithLabelValues(path, string(of))
		}
	}
	rejections.WithLabelValues(ruleOther)
	wouldReject.WithLabelValues(ruleOther)
	capacityBytes.Set(maxInFlight)
	return []prometheus.Collector{duration, rejections, wouldReject, inFlight, capacityBytes, panics}
}

// recordDuration records a review that has been answered. No path of a tenant becomes a label, because only the paths of the webhook configurations have a
// Hook.
func (h Hook) recordDuration(of outcome, began time.Time) {
	duration.WithLabelValues(h.path, string(of)).Observe(time.Since(began).Seconds())
}

// ruleOther is the label of mistakes that no rule of the engine has found.
const ruleOther = "other"

// countRejection counts a refused request by its rules.
func countRejection(mistakes field.ErrorList) {
	for _, rule := range rulesOf(mistakes) {
		rejections.WithLabelValues(rule).Inc()
	}
}
