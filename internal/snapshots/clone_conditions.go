package snapshots

import (
	"context"
	"time"

	clone "kubevirt.io/api/clone/v1beta1"
	api "kubevirt.io/api/snapshot/v1beta1"
)

// cloneWaits is when a clone that waits is looked at again. Most of what it waits for is seen before, by the events of what it has made.
func (c *Controller) cloneWaits(of *clone.VirtualMachineClone) time.Duration {
	for _, condition := range of.Status.Conditions {
		if condition.Type == clone.ConditionReady {
			return waiting(c.Now().Sub(condition.LastTransitionTime.Time))
		}
	}
	return poll
}

// cloneProgress writes the phase of a clone.
func (c *Controller) cloneProgress(ctx context.Context, of *clone.VirtualMachineClone, phase clone.VirtualMachineClonePhase, what said) error {
	return c.patchStatus(ctx, of, func() {
		now := c.Now()
		of.Status.Phase = phase
		progressing, ready := yes(what.reason, what.message), no(what.reason, what.message)
		switch phase {
		case clone.Succeeded:
			progressing, ready = no(what.reason, what.message), yes(what.reason, what.message)
		case clone.Failed:
			progressing = no(what.reason, what.message)
		}
		of.Status.Conditions = putClone(of.Status.Conditions, clone.ConditionProgressing, progressing, now)
		of.Status.Conditions = putClone(of.Status.Conditions, clone.ConditionReady, ready, now)
	})
}

// putClone is put for the conditions of clones, which are another type of the same form.
func putClone(all []clone.Condition, of clone.ConditionType, what said, now time.Time) []clone.Condition {
	var same []api.Condition
	for _, c := range all {
		same = append(same, api.Condition{Type: api.ConditionType(c.Type), Status: c.Status, LastProbeTime: c.LastProbeTime,
			LastTransitionTime: c.LastTransitionTime, Reason: c.Reason, Message: c.Message})
	}
	var back []clone.Condition
	for _, c := range put(same, api.ConditionType(of), what, now) {
		back = append(back, clone.Condition{Type: clone.ConditionType(c.Type), Status: c.Status, LastProbeTime: c.LastProbeTime,
			LastTransitionTime: c.LastTransitionTime, Reason: c.Reason, Message: c.Message})
	}
	return back
}

// failClone ends a clone.
func (c *Controller) failClone(ctx context.Context, of *clone.VirtualMachineClone, reason, message string) error {
	return c.failed(operationClone, c.cloneProgress(ctx, of, clone.Failed, no(reason, message)), of, reason, message)
}
