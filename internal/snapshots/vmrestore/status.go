package vmrestore

import (
	"context"
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/snapshots/hardware"
	"github.com/kilnvm/kiln/internal/snapshots/operation"
	"k8s.io/utils/ptr"
	api "kubevirt.io/api/snapshot/v1beta1"
)

// blockedError is why a restore cannot go on. It becomes conditions of the restore, and no error of the controller.
type blockedError struct {
	reason, message string
	// final reports that the restore fails; otherwise it waits.
	final bool
}

func (e *blockedError) Error() string { return e.reason + ": " + e.message }

// waitBecause returns the error of a step that waits for somebody.
func waitBecause(reason, message string) error { return &blockedError{reason, message, false} }

// failBecause returns the error of a step that ends the restore.
func failBecause(reason, message string) error { return &blockedError{reason, message, true} }

// statusWriter writes the status of restores.
type statusWriter struct {
	*operation.Cluster
	hardware hardware.Writer
}

// pollDelay returns when to reconcile a waiting restore next.
func (w statusWriter) pollDelay(s *state) time.Duration {
	return operation.Backoff(operation.TimeSince(s.restore.Status.Conditions, api.ConditionReady, w.Now()))
}

// reportProgress writes the condition Progressing. The condition Ready is False from the first write on: its time is the begin of the restore.
func (w statusWriter) reportProgress(ctx context.Context, s *state, text operation.ConditionText) error {
	return w.PatchStatus(ctx, s.restore, func() {
		if s.restore.Status == nil {
			s.restore.Status = &api.VirtualMachineRestoreStatus{}
		}
		status, now := s.restore.Status, w.Now()
		status.Complete = ptr.To(false)
		status.Conditions = operation.SetCondition(status.Conditions, api.ConditionProgressing, text, now)
		status.Conditions = operation.SetCondition(status.Conditions, api.ConditionReady, operation.ConditionFalse(text.Reason, text.Message), now)
	})
}

// reportBlocked writes why a restore waits. The first refusal of the API server is an event, too.
func (w statusWriter) reportBlocked(ctx context.Context, s *state, blocked *blockedError) error {
	ready := operation.FindCondition(s.restore.Status.Conditions, api.ConditionReady)
	firstRefusal := blocked.reason == v1alpha1.ReasonNotAdmitted && ready != nil && ready.Reason != blocked.reason
	write := w.reportProgress(ctx, s, operation.ConditionFalse(blocked.reason, blocked.message))
	if firstRefusal {
		return w.WarnAfterWrite(write, s.restore, blocked.reason, blocked.message)
	}
	return write
}

// failRestore ends a restore. The VM is as it was before, except for claims that were created beside its own.
func (w statusWriter) failRestore(ctx context.Context, s *state, blocked *blockedError) error {
	if err := w.deleteUnusedHardware(ctx, s); err != nil {
		return err
	}
	reason, message := blocked.reason, blocked.message
	write := w.PatchStatus(ctx, s.restore, func() {
		status, now := s.restore.Status, w.Now()
		status.Conditions = operation.SetCondition(status.Conditions, api.ConditionProgressing, operation.ConditionFalse(reason, message), now)
		status.Conditions = operation.SetCondition(status.Conditions, api.ConditionReady, operation.ConditionFalse(reason, message), now)
		status.Conditions = operation.SetCondition(status.Conditions, api.ConditionFailure, operation.ConditionTrue(reason, message), now)
	})
	return w.WarnAfterFailure(operation.Restore, write, s.restore, reason, message)
}

// deleteUnusedHardware deletes the GuestHardware of a target that the restore has not created.
func (w statusWriter) deleteUnusedHardware(ctx context.Context, s *state) error {
	if s.vm != nil {
		return nil
	}
	return w.hardware.DeleteUnused(ctx, s.restore)
}
