package guestpolicy

import (
	"slices"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/policy"
	"github.com/prometheus/client_golang/prometheus"
)

// Labels of the metrics.
const (
	labelPolicy = "policy"
	labelAction = "action"
)

// Values of the label action besides the actions of a GuestPolicy.
const (
	// forgiven is a violation in an update that does not change the VMI: the stored VM violates the policy, too.
	forgiven = "Forgiven"
	// excepted is a violation that a GuestPolicyException permits.
	excepted = "Excepted"
	// failed is an expression that failed when it was evaluated, or a policy that does not compile.
	failed = "Failed"
)

// Violations counts the violations and failures of each policy by action. It counts reviews of dry runs, too. A violation of a policy with Warn and Audit
// counts once for each of them.
var Violations = prometheus.NewCounterVec(prometheus.CounterOpts{
	Name: "kiln_guest_policy_violations_total",
	Help: "Violations and failures of GuestPolicies by policy and action: Deny, Warn, Audit, Forgiven, Excepted or Failed.",
}, []string{labelPolicy, labelAction})

// Count counts the result of a review in Violations.
func (*Set) Count(result policy.Result) {
	for _, violation := range result.Violations {
		if violation.Exception != "" {
			Violations.WithLabelValues(violation.Policy, excepted).Inc()
			continue
		}
		for _, action := range violation.Actions {
			counted := string(action)
			if action == v1alpha1.PolicyDeny && !slices.Contains(result.Errors, violation.Err) {
				counted = forgiven
			}
			Violations.WithLabelValues(violation.Policy, counted).Inc()
		}
	}
	for _, failure := range result.Failures {
		Violations.WithLabelValues(failure.Policy, failed).Inc()
	}
}
