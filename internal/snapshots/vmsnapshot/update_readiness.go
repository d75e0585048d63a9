package vmsnapshot

import (
	"context"
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/snapshots/operation"
	"github.com/kilnvm/kiln/internal/snapshots/volumesnapshot"
	"k8s.io/utils/ptr"
	api "kubevirt.io/api/snapshot/v1beta1"
)

// readiness follows whether a snapshot that was taken can be used.
type readiness struct {
	statusWriter
	volumes volumesnapshot.Contents
}

// updateReadiness writes into the status whether the snapshot can be used.
func (r readiness) updateReadiness(ctx context.Context, s *state) (operation.Result, error) {
	if s.content == nil {
		return operation.Wait(), r.PatchStatus(ctx, s.snapshot, func() {
			status, now := s.snapshot.Status, r.Now()
			text := "the content of the snapshot is gone: delete the snapshot"
			status.ReadyToUse = ptr.To(false)
			if operation.ErrorMessage(status.Error, "") != text {
				status.Error = operation.NewError(text, now)
			}
			gone := operation.ConditionFalse(v1alpha1.ReasonSourceMissing, text)
			status.Conditions = operation.SetCondition(status.Conditions, api.ConditionReady, gone, now)
		})
	}
	if err := r.volumes.UpdateContent(ctx, s.content); err != nil {
		return operation.Result{}, err
	}
	return operation.Done(), r.PatchStatus(ctx, s.snapshot, func() { copyReadiness(s.snapshot.Status, s.content.Status, r.Now()) })
}

// copyReadiness copies from the content whether a snapshot can be used.
func copyReadiness(status *api.VirtualMachineSnapshotStatus, content *api.VirtualMachineSnapshotContentStatus, now time.Time) {
	status.ReadyToUse, status.Error = ptr.To(ptr.Deref(content.ReadyToUse, false)), content.Error
	text := operation.ConditionTrue(v1alpha1.ReasonCompleted, "the snapshot is ready to use")
	if !*status.ReadyToUse {
		text = operation.ConditionFalse(v1alpha1.ReasonVolumeSnapshots, operation.ErrorMessage(content.Error, "waits for VolumeSnapshots"))
	}
	status.Conditions = operation.SetCondition(status.Conditions, api.ConditionReady, text, now)
}

// waitUntilReady reconciles the snapshot again until it can be used. VolumeSnapshots are not watched.
func (r readiness) waitUntilReady(_ context.Context, s *state) (operation.Result, error) {
	if ptr.Deref(s.snapshot.Status.ReadyToUse, false) {
		return operation.Done(), nil
	}
	return operation.RetryAfter(operation.Backoff(operation.TimeSince(s.snapshot.Status.Conditions, api.ConditionReady, r.Now()))), nil
}
