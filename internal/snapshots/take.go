package snapshots

import (
	"context"
	"fmt"
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/condition"
	"github.com/kilnvm/kiln/internal/objects"
	"github.com/kilnvm/kiln/internal/snapshots/operation"
	"github.com/kilnvm/kiln/internal/snapshots/quiesce"
	"github.com/kilnvm/kiln/pkg/snapshot"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	v1 "kubevirt.io/api/core/v1"
	api "kubevirt.io/api/snapshot/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

// Finalizers, which are KubeVirt's.
const (
	snapshotFinalizer = "snapshot.kubevirt.io/vmsnapshot-protection"
	contentFinalizer  = "snapshot.kubevirt.io/vmsnapshotcontent-protection"
)

// taking is one snapshot with what it is about.
type taking struct {
	snapshot *api.VirtualMachineSnapshot
	// content and vm are nil if they do not exist.
	content *api.VirtualMachineSnapshotContent
	vm      *v1.VirtualMachine
}

// snapshot takes one step of a VirtualMachineSnapshot.
func (c *Controller) snapshot(ctx context.Context, key types.NamespacedName) (time.Duration, error) {
	found, err := objects.GetOrNil(ctx, c.Live, key, &api.VirtualMachineSnapshot{})
	if err != nil {
		return 0, err
	} else if found == nil {
		return 0, c.orphans().UnlockAll(ctx, key)
	}
	t := taking{snapshot: found}
	at := types.NamespacedName{Namespace: key.Namespace, Name: operation.ContentName(found.UID)}
	if t.content, err = objects.GetOrNil(ctx, c.Live, at, &api.VirtualMachineSnapshotContent{}); err != nil {
		return 0, err
	}
	at.Name = found.Spec.Source.Name
	if t.vm, err = objects.GetOrNil(ctx, c.Live, at, &v1.VirtualMachine{}); err != nil {
		return 0, err
	}
	switch phase := operation.PhaseOf(found); {
	case found.DeletionTimestamp != nil:
		return c.forget(ctx, t)
	case phase == api.Failed:
		return c.abandon(ctx, t)
	case phase == api.Succeeded:
		return c.follow(ctx, t)
	}
	if !controllerutil.ContainsFinalizer(found, snapshotFinalizer) {
		return operation.NextStep, c.Patch(ctx, found, func() { controllerutil.AddFinalizer(found, snapshotFinalizer) })
	}
	after, err := c.take(ctx, t)
	if !operation.IsRefused(err) || found.Status == nil {
		return after, err
	}
	// A quota, a policy or a webhook refuses an object that the snapshot is made of. Its owner may mend that within the failureDeadline, which is no time for a
	// guest to be frozen.
	if done, err := c.Quiescer.Thaw(ctx, t.snapshot, t.content); err != nil || !done {
		return quiesce.RequestPoll, err
	}
	was := operation.FindCondition(found.Status.Conditions, api.ConditionProgressing)
	first := was != nil && was.Reason != v1alpha1.ReasonNotAdmitted
	write := c.progress(ctx, t, operation.False(v1alpha1.ReasonNotAdmitted, err.Error()))
	if first {
		write = c.WarnAfterWrite(write, found, v1alpha1.ReasonNotAdmitted, err.Error())
	}
	return c.patience(t), write
}

// patience is when a snapshot that waits for somebody is looked at again; soon after its deadline at the latest.
func (c *Controller) patience(t taking) time.Duration {
	waited := operation.TimeSince(t.snapshot.Status.Conditions, api.ConditionReady, c.Now())
	after := operation.Backoff(waited)
	if limit := operation.FailureDeadline(t.snapshot); limit > waited {
		after = min(after, limit-waited+time.Second)
	}
	return after
}

// take takes the steps of a snapshot that is neither done nor failed.
func (c *Controller) take(ctx context.Context, t taking) (time.Duration, error) {
	if t.snapshot.Status == nil {
		return operation.NextStep, c.progress(ctx, t, operation.True(v1alpha1.ReasonInProgress, "the snapshot has begun"))
	}
	if errs := snapshot.CheckSnapshot(&t.snapshot.Spec); len(errs) > 0 {
		return 0, c.fail(ctx, t, v1alpha1.ReasonMalformed, condition.Mistakes(errs))
	}
	if c.late(t.snapshot) {
		text := "the snapshot was not taken within its failureDeadline"
		if was := operation.FindCondition(t.snapshot.Status.Conditions, api.ConditionProgressing); was != nil && was.Status == corev1.ConditionFalse {
			text += ": " + was.Message
		}
		return 0, c.fail(ctx, t, v1alpha1.ReasonDeadlineExceeded, text)
	}
	if t.content != nil {
		return c.complete(ctx, t)
	}
	if t.vm == nil {
		return c.patience(t), c.progress(ctx, t, operation.False(v1alpha1.ReasonSourceMissing, fmt.Sprintf("VirtualMachine '%s' does not exist", t.snapshot.Spec.Source.Name)))
	}
	if busy, err := c.locker().LockForSnapshot(ctx, t.vm, t.snapshot.Name); err != nil {
		return 0, err
	} else if busy != "" {
		return c.patience(t), c.progress(ctx, t, operation.False(v1alpha1.ReasonSourceBusy, busy))
	}
	return c.keep(ctx, t)
}

// late reports whether the time that a snapshot may take is over.
func (c *Controller) late(of *api.VirtualMachineSnapshot) bool {
	limit := operation.FailureDeadline(of)
	return limit > 0 && operation.TimeSince(of.Status.Conditions, api.ConditionReady, c.Now()) > limit
}

// progress writes how far a snapshot is. Its condition Ready is False from the first time on.
func (c *Controller) progress(ctx context.Context, t taking, what operation.ConditionText) error {
	return c.PatchStatus(ctx, t.snapshot, func() {
		if t.snapshot.Status == nil {
			t.snapshot.Status = &api.VirtualMachineSnapshotStatus{}
		}
		status := t.snapshot.Status
		status.Phase, status.ReadyToUse = api.InProgress, ptr.To(false)
		status.Conditions = operation.SetCondition(status.Conditions, api.ConditionProgressing, what, c.Now())
		status.Conditions = operation.SetCondition(status.Conditions, api.ConditionReady, operation.False(v1alpha1.ReasonInProgress, "the snapshot is not taken yet"), c.Now())
	})
}

// fail ends a snapshot. Its content goes, since it is not whole.
func (c *Controller) fail(ctx context.Context, t taking, reason, message string) error {
	write := c.PatchStatus(ctx, t.snapshot, func() {
		status, now := t.snapshot.Status, c.Now()
		status.Phase, status.ReadyToUse = api.Failed, ptr.To(false)
		status.Error = operation.NewError(message, now)
		status.Conditions = operation.SetCondition(status.Conditions, api.ConditionProgressing, operation.False(reason, message), now)
		status.Conditions = operation.SetCondition(status.Conditions, api.ConditionReady, operation.False(reason, message), now)
		status.Conditions = operation.SetCondition(status.Conditions, api.ConditionFailure, operation.True(reason, message), now)
	})
	return c.WarnAfterFailure(operation.Snapshot, write, t.snapshot, reason, message)
}
