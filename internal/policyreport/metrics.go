package policyreport

import "github.com/prometheus/client_golang/prometheus"

// Labels of the metric.
const (
	labelPolicy = "policy"
	labelResult = "result"
)

// resultsOfPolicies is the number of results by policy.
var resultsOfPolicies = prometheus.NewGaugeVec(prometheus.GaugeOpts{
	Name: "kiln_guest_policy_results",
	Help: "Results of GuestPolicies on stored VMs, and VMIs without a VM, by policy and result: pass, fail (the policy denies), warn, error (an expression " +
		"failed) or skip (a GuestPolicyException permits it). From the leader; no values on other replicas.",
}, []string{labelPolicy, labelResult})

// Metrics returns the metrics of this package.
func Metrics() []prometheus.Collector { return []prometheus.Collector{resultsOfPolicies} }

// publishCounts sets the metric.
func (a *Auditor) publishCounts() {
	resultsOfPolicies.Reset()
	for name, of := range a.byPolicy() {
		for result, count := range of.counts {
			resultsOfPolicies.WithLabelValues(name, string(result)).Set(float64(count))
		}
	}
}
