package snapshots

import (
	"context"
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/objects"
	"github.com/kilnvm/kiln/internal/snapshots/operation"
	"github.com/kilnvm/kiln/internal/snapshots/quiesce"
	"github.com/kilnvm/kiln/internal/snapshots/volumesnapshot"
	"github.com/kilnvm/kiln/pkg/snapshot"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	api "kubevirt.io/api/snapshot/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

// complete brings the content of a snapshot on, and says in the snapshot what has become of it.
func (c *Controller) complete(ctx context.Context, t taking) (time.Duration, error) {
	if done, err := c.Quiescer.Freeze(ctx, t.snapshot, t.content); err != nil || !done {
		return quiesce.RequestPoll, err
	}
	if err := (volumesnapshot.Contents{Cluster: c.Cluster}).Update(ctx, t.content); err != nil {
		return 0, err
	}
	status := t.content.Status
	if status.CreationTime == nil {
		if err := c.progress(ctx, t, operation.True(v1alpha1.ReasonVolumeSnapshots, operation.ErrorMessage(status.Error, "waits for VolumeSnapshots"))); err != nil {
			return 0, err
		}
		if was := operation.FindCondition(t.snapshot.Status.Conditions, v1alpha1.ConditionQuiesced); was != nil && was.Reason == v1alpha1.ReasonFrozen {
			return time.Second, nil // the guest waits
		}
		return c.patience(t), nil
	}
	if done, err := c.Quiescer.Thaw(ctx, t.snapshot, t.content); err != nil || !done {
		return quiesce.RequestPoll, err
	}
	volumes, partial, err := c.included(ctx, t.content)
	if err != nil {
		return 0, err
	}
	err = operation.CountSuccess(operation.Snapshot, c.PatchStatus(ctx, t.snapshot, func() {
		of, now := t.snapshot.Status, c.Now()
		of.Phase, of.CreationTime, of.SnapshotVolumes = api.Succeeded, status.CreationTime, volumes
		of.VirtualMachineSnapshotContentName = &t.content.Name
		if partial {
			operation.AddIndications(of, api.VMSnapshotPartialSnapshotIndication)
		}
		of.Conditions = operation.SetCondition(of.Conditions, api.ConditionProgressing, operation.False(v1alpha1.ReasonCompleted, "the snapshot is taken"), now)
		ready(of, status, now)
	}))
	return operation.NextStep, err
}

// ready copies from the content whether a snapshot can be used.
func ready(of *api.VirtualMachineSnapshotStatus, content *api.VirtualMachineSnapshotContentStatus, now time.Time) {
	of.ReadyToUse, of.Error = ptr.To(ptr.Deref(content.ReadyToUse, false)), content.Error
	what := operation.True(v1alpha1.ReasonCompleted, "the snapshot is ready to use")
	if !*of.ReadyToUse {
		what = operation.False(v1alpha1.ReasonVolumeSnapshots, operation.ErrorMessage(content.Error, "waits for VolumeSnapshots"))
	}
	of.Conditions = operation.SetCondition(of.Conditions, api.ConditionReady, what, now)
}

// follow unlocks the source of a snapshot that was taken, and says whether it can be used still.
func (c *Controller) follow(ctx context.Context, t taking) (time.Duration, error) {
	if err := c.locker().UnlockFromSnapshot(ctx, t.vm, t.snapshot.Name); err != nil {
		return 0, err
	}
	if t.content == nil {
		return 0, c.PatchStatus(ctx, t.snapshot, func() {
			of, now := t.snapshot.Status, c.Now()
			text := "the content of the snapshot is gone: delete the snapshot"
			of.ReadyToUse = ptr.To(false)
			if operation.ErrorMessage(of.Error, "") != text {
				of.Error = operation.NewError(text, now)
			}
			of.Conditions = operation.SetCondition(of.Conditions, api.ConditionReady, operation.False(v1alpha1.ReasonSourceMissing, text), now)
		})
	}
	if err := (volumesnapshot.Contents{Cluster: c.Cluster}).Update(ctx, t.content); err != nil {
		return 0, err
	}
	if err := c.PatchStatus(ctx, t.snapshot, func() { ready(t.snapshot.Status, t.content.Status, c.Now()) }); err != nil {
		return 0, err
	}
	if after, err := c.Quiescer.RetryThaw(ctx, t.snapshot); err != nil || after > 0 {
		return after, err
	}
	if !ptr.Deref(t.snapshot.Status.ReadyToUse, false) {
		return operation.Backoff(operation.TimeSince(t.snapshot.Status.Conditions, api.ConditionReady, c.Now())), nil
	}
	return 0, nil
}

// abandon unlocks the source of a snapshot that has failed, and removes what was made of it.
func (c *Controller) abandon(ctx context.Context, t taking) (time.Duration, error) {
	if done, err := c.Quiescer.Thaw(ctx, t.snapshot, t.content); err != nil || !done {
		return quiesce.RequestPoll, err
	}
	if err := c.locker().UnlockFromSnapshot(ctx, t.vm, t.snapshot.Name); err != nil {
		return 0, err
	}
	return 0, c.drop(ctx, t.content)
}

// drop deletes a content.
func (c *Controller) drop(ctx context.Context, content *api.VirtualMachineSnapshotContent) error {
	if content == nil || content.DeletionTimestamp != nil {
		return nil
	}
	return client.IgnoreNotFound(c.Live.Delete(ctx, content, client.Preconditions{UID: &content.UID}))
}

// forget lets a snapshot go that is deleted, with its content where it does not say Retain or has none that could be used.
func (c *Controller) forget(ctx context.Context, t taking) (time.Duration, error) {
	if !controllerutil.ContainsFinalizer(t.snapshot, snapshotFinalizer) {
		return 0, nil
	}
	if done, err := c.Quiescer.Thaw(ctx, t.snapshot, t.content); err != nil || !done {
		return quiesce.RequestPoll, err
	}
	if err := c.locker().UnlockFromSnapshot(ctx, t.vm, t.snapshot.Name); err != nil {
		return 0, err
	}
	retained := ptr.Deref(t.snapshot.Spec.DeletionPolicy, "") == api.VirtualMachineSnapshotContentRetain
	if t.content != nil && (!retained || t.content.Status == nil || !ptr.Deref(t.content.Status.ReadyToUse, false)) {
		if err := c.drop(ctx, t.content); err != nil {
			return 0, err
		}
	}
	return 0, client.IgnoreNotFound(c.Patch(ctx, t.snapshot, func() { controllerutil.RemoveFinalizer(t.snapshot, snapshotFinalizer) }))
}

// content lets a content go, or be deleted by its owner, whose snapshot is gone or about to go.
func (c *Controller) content(ctx context.Context, key types.NamespacedName) (time.Duration, error) {
	content, err := objects.GetOrNil(ctx, c.Live, key, &api.VirtualMachineSnapshotContent{})
	if err != nil || content == nil || !controllerutil.ContainsFinalizer(content, contentFinalizer) {
		return 0, err
	}
	at := types.NamespacedName{Namespace: key.Namespace, Name: ptr.Deref(content.Spec.VirtualMachineSnapshotName, "")}
	found, err := objects.GetOrNil(ctx, c.Live, at, &api.VirtualMachineSnapshot{})
	if err != nil {
		return 0, err
	}
	if found != nil && operation.ContentName(found.UID) == key.Name && found.DeletionTimestamp == nil && operation.PhaseOf(found) != api.Failed {
		return 0, nil
	}
	return 0, client.IgnoreNotFound(c.Patch(ctx, content, func() { controllerutil.RemoveFinalizer(content, contentFinalizer) }))
}

// included returns which volumes of the VM a content has. partial reports that it lacks one whose claim could be snapshotted somewhere.
func (c *Controller) included(ctx context.Context, of *api.VirtualMachineSnapshotContent) (lists *api.SnapshotVolumesLists, partial bool, err error) {
	kept, err := snapshot.Read(of)
	if err != nil {
		return nil, false, err
	}
	claims, others := snapshot.Volumes(kept.VM)
	lists = &api.SnapshotVolumesLists{ExcludedVolumes: others}
	for _, volume := range claims {
		if kept.Backup(volume.Name) != nil {
			lists.IncludedVolumes = append(lists.IncludedVolumes, volume.Name)
			continue
		}
		if volume.Name == snapshot.State {
			claim, err := objects.GetOrNil(ctx, c.Live, types.NamespacedName{Namespace: of.Namespace, Name: volume.Claim}, &corev1.PersistentVolumeClaim{})
			if err != nil {
				return nil, false, err
			}
			if claim == nil {
				continue
			}
		}
		lists.ExcludedVolumes, partial = append(lists.ExcludedVolumes, volume.Name), true
	}
	return lists, partial, nil
}
