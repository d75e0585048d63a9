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

// TestTooLarge: of a VM whose pod waits for a node, the answer says whether a stopped VM would make room for it.
func TestTooLarge(t *testing.T) {
	placeable := func(reason string, generation int64) func(*Objects) {
		return func(o *Objects) {
			o.VM.Object.Generation = generation
			o.VM.Object.Status.Conditions = append(o.VM.Object.Status.Conditions, v1.VirtualMachineCondition{Type: v1alpha1.ConditionPlaceable,
				Status: corev1.ConditionFalse, Reason: reason, Message: "no node"})
		}
	}
	edited := func(o *Objects) {
		o.VM.Object.Status.Conditions = append(o.VM.Object.Status.Conditions, v1.VirtualMachineCondition{Type: v1.VirtualMachineRestartRequired,
			Status: corev1.ConditionTrue})
	}
	waits := func(changes ...func(*Objects)) Objects {
		return withChanges(podPending(), append(changes, podUnscheduled("0/2 nodes are available: 2 Insufficient memory."))...)
	}
	const full, large = "no node has room for its pod", "no node is large enough for its pod, even without other pods: 0/2 nodes"
	for _, c := range []struct {
		why, want string
		of        Objects
	}{
		{"without the condition", full, waits()},
		{"too large", large, waits(placeable(v1alpha1.ReasonNoNodeLargeEnough, 0))},
		{"another reason", full, waits(placeable(v1alpha1.ReasonNoNodeMatches, 0))},
		{"the controller has not seen the spec", full, waits(placeable(v1alpha1.ReasonNoNodeLargeEnough, 2))},
		{"the condition is about the next start", full, waits(placeable(v1alpha1.ReasonNoNodeLargeEnough, 0), edited)},
	} {
		if answer := CheckStart(c.of); !strings.Contains(answer.Cause, c.want) || strings.Contains(answer.Remedy, "stop other VMs") != (c.want == full) {
			t.Errorf("%s: %s Remedy: %s", c.why, answer.Cause, answer.Remedy)
		}
	}
}

// TestNoCPU: of a VM whose pod waits for a node with its CPU, the answer names what the nodes lack. The scheduler's message does not.
func TestNoCPU(t *testing.T) {
	const lack = "no node offers the CPU of the guest: 2 nodes lack CPU features pcommit"
	unmatched := podUnscheduled("0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector.")
	says := func(o *Objects) {
		o.VM.Object.Status.Conditions = append(o.VM.Object.Status.Conditions, v1.VirtualMachineCondition{Type: v1alpha1.ConditionPlaceable,
			Status: corev1.ConditionFalse, Reason: v1alpha1.ReasonNoNodeHasCPU, Message: lack})
	}
	if answer := CheckStart(withChanges(podPending(), says, unmatched)); !strings.Contains(answer.Cause, lack) || !strings.Contains(answer.Remedy, "repin --cpu") {
		t.Errorf("%s Remedy: %s", answer.Cause, answer.Remedy)
	}
	if answer := CheckStart(withChanges(podPending(), unmatched)); !strings.Contains(answer.Cause, "didn't match") {
		t.Errorf("without the condition: %s", answer.Cause)
	}
}
