package startcheck

import (
	"slices"
	"strings"
	"testing"

	"github.com/kilnvm/kiln/api/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	v1 "kubevirt.io/api/core/v1"
)

// TestPlaceable: of a VM that nobody has started, the answer has a note of what condition Placeable says. Later evidence takes its place.
func TestPlaceable(t *testing.T) {
	placeable := func(status corev1.ConditionStatus) func(*Objects) {
		return func(o *Objects) {
			o.VM.Object.Status.Conditions = append(o.VM.Object.Status.Conditions, v1.VirtualMachineCondition{Type: v1alpha1.ConditionPlaceable,
				Status: status, Reason: v1alpha1.ReasonNoNodeMatches, Message: "no node has label\n'a=b'"})
		}
	}
	halted := withStrategy(v1.RunStrategyHalted)
	for _, c := range []struct {
		why  string
		of   Objects
		want bool
	}{
		{"halted", withChanges(vmWithoutVMI(), halted, placeable(corev1.ConditionFalse)), true},
		{"manual", withChanges(vmWithoutVMI(), withStrategy(v1.RunStrategyManual), placeable(corev1.ConditionFalse)), true},
		{"a node fits", withChanges(vmWithoutVMI(), halted, placeable(corev1.ConditionTrue)), false},
		{"it is not known", withChanges(vmWithoutVMI(), halted, placeable(corev1.ConditionUnknown)), false},
		{"a VM without the condition", withChanges(vmWithoutVMI(), halted), false},
		{"the controller has not seen the spec", withChanges(vmWithoutVMI(), halted, placeable(corev1.ConditionFalse),
			func(o *Objects) { o.VM.Object.Generation = 2 }), false},
		{"its VMI says more", withChanges(vmiPending(), placeable(corev1.ConditionFalse)), false},
	} {
		answer := CheckStart(c.of)
		noted := slices.ContainsFunc(answer.Notes, func(note string) bool {
			return strings.Contains(note, "a start would not lead to a guest now: no node has label 'a=b'")
		})
		if noted != c.want || noted && !answer.AsRequested {
			t.Errorf("%s: notes %q, as requested %t", c.why, answer.Notes, answer.AsRequested)
		}
	}
}
