package guestpolicy

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/policy"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/util/validation/field"
	toolscache "k8s.io/client-go/tools/cache"
)

// TestCount: each violation counts by what came of it, a forgiven one is no refusal, and a deleted policy leaves no series.
func TestCount(t *testing.T) {
	denied, before := field.Invalid(nil, 1, "denied"), field.Invalid(nil, 2, "forgiven")
	deny := []v1alpha1.GuestPolicyAction{v1alpha1.PolicyDeny}
	(&Set{}).Count(policy.Result{
		Errors: field.ErrorList{denied}, Failures: []policy.Failure{{Policy: "counted"}},
		Violations: []policy.Violation{
			{Policy: "counted", Actions: deny, Err: denied}, {Policy: "counted", Actions: deny, Err: before},
			{Policy: "counted", Actions: []v1alpha1.GuestPolicyAction{v1alpha1.PolicyWarn, v1alpha1.PolicyAudit}, Err: field.Invalid(nil, 3, "")},
		},
	})
	want := map[string]float64{"Deny": 1, forgiven: 1, "Warn": 1, "Audit": 1, failed: 1}
	if diff := cmp.Diff(want, counts(t)); diff != "" {
		t.Error(diff)
	}
	(&Set{}).dropPolicy(toolscache.DeletedFinalStateUnknown{Key: "counted"})
	if left := counts(t); len(left) > 0 {
		t.Errorf("series of a deleted policy: %v", left)
	}
}

// counts returns the counts by action.
func counts(t *testing.T) map[string]float64 {
	t.Helper()
	registry := prometheus.NewRegistry()
	err := registry.Register(Violations)
	families, gatherErr := registry.Gather()
	if err != nil || gatherErr != nil {
		t.Fatal(err, gatherErr)
	}
	all := map[string]float64{}
	for _, family := range families {
		for _, series := range family.GetMetric() {
			for _, label := range series.GetLabel() {
				if label.GetName() == labelAction {
					all[label.GetValue()] += series.GetCounter().GetValue()
				}
			}
		}
	}
	return all
}
