package vmsnapshot

import (
	"context"
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/snapshots/operation"
	"k8s.io/utils/ptr"
	api "kubevirt.io/api/snapshot/v1beta1"
)

// statusWriter writes the status of snapshots.
type statusWriter struct{ *operation.Cluster }

// pollDelay returns when to reconcile a waiting snapshot next: at the latest a second after its deadline.
func (w statusWriter) pollDelay(s *state) time.Duration {
	waited := operation.TimeSince(s.snapshot.Status.Conditions, api.ConditionReady, w.Now())
	after := operation.Backoff(waited)
	if deadline := operation.FailureDeadline(s.snapshot); deadline > waited {
		after = min(after, deadline-waited+time.Second)
	}
	return after
}

// isLate reports whether the failureDeadline of a snapshot is over.
func (w statusWriter) isLate(snapshot *api.VirtualMachineSnapshot) bool {
	deadline := operation.FailureDeadline(snapshot)
	return deadline > 0 && operation.TimeSince(snapshot.Status.Conditions, api.ConditionReady, w.Now()) > deadline
}

// reportProgress writes the condition Progressing. The condition Ready is False from the first write on: its time is the begin of the snapshot.
func (w statusWriter) reportProgress(ctx context.Context, s *state, text operation.ConditionText) error {
	return w.PatchStatus(ctx, s.snapshot, func() {
		if s.snapshot.Status == nil {
			s.snapshot.Status = &api.VirtualMachineSnapshotStatus{}
		}
		status, now := s.snapshot.Status, w.Now()
		status.Phase, status.ReadyToUse = api.InProgress, ptr.To(false)
		status.Conditions = operation.SetCondition(status.Conditions, api.ConditionProgressing, text, now)
		notReady := operation.ConditionFalse(v1alpha1.ReasonInProgress, "the snapshot has not been taken yet")
		status.Conditions = operation.SetCondition(status.Conditions, api.ConditionReady, notReady, now)
	})
}

// failSnapshot ends a snapshot. The next reconcile deletes its content, because it is incomplete.
func (w statusWriter) failSnapshot(ctx context.Context, s *state, reason, message string) (operation.Result, error) {
	write := w.PatchStatus(ctx, s.snapshot, func() {
		status, now := s.snapshot.Status, w.Now()
		status.Phase, status.ReadyToUse = api.Failed, ptr.To(false)
		status.Error = operation.NewError(message, now)
		status.Conditions = operation.SetCondition(status.Conditions, api.ConditionProgressing, operation.ConditionFalse(reason, message), now)
		status.Conditions = operation.SetCondition(status.Conditions, api.ConditionReady, operation.ConditionFalse(reason, message), now)
		status.Conditions = operation.SetCondition(status.Conditions, api.ConditionFailure, operation.ConditionTrue(reason, message), now)
	})
	return operation.Wait(), w.WarnAfterFailure(operation.Snapshot, write, s.snapshot, reason, message)
}
