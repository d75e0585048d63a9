package vmclone

import (
	"context"
	"fmt"
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/snapshots/operation"
	clone "kubevirt.io/api/clone/v1beta1"
	api "kubevirt.io/api/snapshot/v1beta1"
)

// statusWriter writes the status of clones.
type statusWriter struct{ *operation.Cluster }

// pollDelay returns when to reconcile a waiting clone next. Events of the snapshot and the restore usually come before.
func (w statusWriter) pollDelay(cloned *clone.VirtualMachineClone) time.Duration {
	for _, condition := range cloned.Status.Conditions {
		if condition.Type == clone.ConditionReady {
			return operation.Backoff(w.Now().Sub(condition.LastTransitionTime.Time))
		}
	}
	return operation.PollInterval
}

// reportPhase writes the phase of a clone and its conditions. The status of the text is not used: it follows from the phase.
func (w statusWriter) reportPhase(
	ctx context.Context, cloned *clone.VirtualMachineClone, phase clone.VirtualMachineClonePhase, text operation.ConditionText,
) error {
	return w.PatchStatus(ctx, cloned, func() {
		now := w.Now()
		cloned.Status.Phase = phase
		progressing, ready := operation.ConditionTrue(text.Reason, text.Message), operation.ConditionFalse(text.Reason, text.Message)
		switch phase {
		case clone.Succeeded:
			progressing, ready = operation.ConditionFalse(text.Reason, text.Message), operation.ConditionTrue(text.Reason, text.Message)
		case clone.Failed:
			progressing = operation.ConditionFalse(text.Reason, text.Message)
		}
		cloned.Status.Conditions = setCondition(cloned.Status.Conditions, clone.ConditionProgressing, progressing, now)
		cloned.Status.Conditions = setCondition(cloned.Status.Conditions, clone.ConditionReady, ready, now)
	})
}

// setCondition is operation.SetCondition for the conditions of clones, which have another type with the same fields.
func setCondition(all []clone.Condition, kind clone.ConditionType, text operation.ConditionText, now time.Time) []clone.Condition {
	var same []api.Condition
	for _, c := range all {
		same = append(same, api.Condition{Type: api.ConditionType(c.Type), Status: c.Status, LastProbeTime: c.LastProbeTime,
			LastTransitionTime: c.LastTransitionTime, Reason: c.Reason, Message: c.Message})
	}
	var back []clone.Condition
	for _, c := range operation.SetCondition(same, api.ConditionType(kind), text, now) {
		back = append(back, clone.Condition{Type: clone.ConditionType(c.Type), Status: c.Status, LastProbeTime: c.LastProbeTime,
			LastTransitionTime: c.LastTransitionTime, Reason: c.Reason, Message: c.Message})
	}
	return back
}

// waitForObjects ends a reconcile until the objects that the clone waits for change, or until its backoff.
func (w statusWriter) waitForObjects(cloned *clone.VirtualMachineClone) (operation.Result, error) {
	return operation.RetryAfter(w.pollDelay(cloned)), nil
}

// waitForSource reports that the source does not exist.
func (w statusWriter) waitForSource(ctx context.Context, cloned *clone.VirtualMachineClone) (operation.Result, error) {
	text := fmt.Sprintf("%s '%s' does not exist", cloned.Spec.Source.Kind, cloned.Spec.Source.Name)
	missing := operation.ConditionTrue(v1alpha1.ReasonSourceMissing, text)
	return operation.RetryAfter(w.pollDelay(cloned)), w.reportPhase(ctx, cloned, clone.SnapshotInProgress, missing)
}

// failClone ends a clone.
func (w statusWriter) failClone(ctx context.Context, cloned *clone.VirtualMachineClone, reason, message string) (operation.Result, error) {
	write := w.reportPhase(ctx, cloned, clone.Failed, operation.ConditionFalse(reason, message))
	return operation.Wait(), w.WarnAfterFailure(operation.Clone, write, cloned, reason, message)
}
