package snapshots

import (
	"context"
	"time"

	"github.com/kilnvm/kiln/internal/snapshots/operation"
	clone "kubevirt.io/api/clone/v1beta1"
	api "kubevirt.io/api/snapshot/v1beta1"
)

// cloneWaits is when a clone that waits is looked at again. Most of what it waits for is seen before, by the events of what it has made.
func (c *Controller) cloneWaits(of *clone.VirtualMachineClone) time.Duration {
	for _, condition := range of.Status.Conditions {
		if condition.Type == clone.ConditionReady {
			return operation.Backoff(c.Now().Sub(condition.LastTransitionTime.Time))
		}
	}
	return operation.PollInterval
}

// cloneProgress writes the phase of a clone.
func (c *Controller) cloneProgress(ctx context.Context, of *clone.VirtualMachineClone, phase clone.VirtualMachineClonePhase, what operation.ConditionText) error {
	return c.PatchStatus(ctx, of, func() {
		now := c.Now()
		of.Status.Phase = phase
		progressing, ready := operation.True(what.Reason, what.Message), operation.False(what.Reason, what.Message)
		switch phase {
		case clone.Succeeded:
			progressing, ready = operation.False(what.Reason, what.Message), operation.True(what.Reason, what.Message)
		case clone.Failed:
			progressing = operation.False(what.Reason, what.Message)
		}
		of.Status.Conditions = putClone(of.Status.Conditions, clone.ConditionProgressing, progressing, now)
		of.Status.Conditions = putClone(of.Status.Conditions, clone.ConditionReady, ready, now)
	})
}

// putClone is put for the conditions of clones, which are another type of the same form.
func putClone(all []clone.Condition, of clone.ConditionType, what operation.ConditionText, now time.Time) []clone.Condition {
	var same []api.Condition
	for _, c := range all {
		same = append(same, api.Condition{Type: api.ConditionType(c.Type), Status: c.Status, LastProbeTime: c.LastProbeTime,
			LastTransitionTime: c.LastTransitionTime, Reason: c.Reason, Message: c.Message})
	}
	var back []clone.Condition
	for _, c := range operation.SetCondition(same, api.ConditionType(of), what, now) {
		back = append(back, clone.Condition{Type: clone.ConditionType(c.Type), Status: c.Status, LastProbeTime: c.LastProbeTime,
			LastTransitionTime: c.LastTransitionTime, Reason: c.Reason, Message: c.Message})
	}
	return back
}

// failClone ends a clone.
func (c *Controller) failClone(ctx context.Context, of *clone.VirtualMachineClone, reason, message string) error {
	return c.WarnAfterFailure(operation.Clone, c.cloneProgress(ctx, of, clone.Failed, operation.False(reason, message)), of, reason, message)
}
