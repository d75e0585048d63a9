package snapshots

import (
	"context"
	"fmt"
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/condition"
	"github.com/kilnvm/kiln/internal/objects"
	"github.com/kilnvm/kiln/internal/snapshots/operation"
	"github.com/kilnvm/kiln/internal/snapshots/vmlock"
	"github.com/kilnvm/kiln/pkg/snapshot"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	v1 "kubevirt.io/api/core/v1"
	api "kubevirt.io/api/snapshot/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

// restoreFinalizer is KubeVirt's.
const restoreFinalizer = "snapshot.kubevirt.io/vmrestore-protection"

// restoring is one restore with what it is about.
type restoring struct {
	restore *api.VirtualMachineRestore
	// vm is the target; nil if it does not exist.
	vm *v1.VirtualMachine
	// kept is what the snapshot holds, wanted the VM as it is to be, and left what it is restored without.
	kept   snapshot.Kept
	wanted *v1.VirtualMachine
	left   []snapshot.Device
}

// restored reports whether the target has the mark of this restore.
func (r *restoring) restored() bool {
	return r.vm != nil && r.vm.Annotations[snapshot.Mark] == snapshot.MarkOf(r.restore)
}

// restore takes one step of a VirtualMachineRestore.
func (c *Controller) restore(ctx context.Context, key types.NamespacedName) (time.Duration, error) {
	found, err := objects.GetOrNil(ctx, c.Live, key, &api.VirtualMachineRestore{})
	if err != nil {
		return 0, err
	} else if found == nil {
		return 0, c.orphans().UnlockAll(ctx, key)
	}
	r := &restoring{restore: found}
	target := types.NamespacedName{Namespace: key.Namespace, Name: found.Spec.Target.Name}
	if r.vm, err = objects.GetOrNil(ctx, c.Live, target, &v1.VirtualMachine{}); err != nil {
		return 0, err
	}
	switch {
	case found.DeletionTimestamp != nil:
		if err := c.discard(ctx, r); err != nil {
			return 0, err
		}
		if err := c.locker().UnlockFromRestore(ctx, r.vm, found.Name); err != nil {
			return 0, err
		}
		return 0, client.IgnoreNotFound(c.Patch(ctx, found, func() { controllerutil.RemoveFinalizer(found, restoreFinalizer) }))
	case found.Status != nil && (ptr.Deref(found.Status.Complete, false) || operation.HasFailed(found.Status.Conditions)):
		return 0, c.locker().UnlockFromRestore(ctx, r.vm, found.Name)
	case found.Status == nil:
		return operation.NextStep, c.restoreProgress(ctx, r, operation.True(v1alpha1.ReasonInProgress, "the restore has begun"))
	case !controllerutil.ContainsFinalizer(found, restoreFinalizer):
		return operation.NextStep, c.Patch(ctx, found, func() {
			controllerutil.AddFinalizer(found, restoreFinalizer)
			if r.vm != nil && len(found.OwnerReferences) == 0 { // as in KubeVirt, the restore goes with its VM
				found.OwnerReferences = []metav1.OwnerReference{*ownedBy(r.vm)}
			}
		})
	}
	if errs := snapshot.CheckRestore(&found.Spec); len(errs) > 0 {
		return 0, c.failRestore(ctx, r, v1alpha1.ReasonMalformed, condition.Mistakes(errs))
	}
	after, err := c.bring(ctx, r)
	if !operation.IsRefused(err) {
		return after, err
	}
	// A quota, a policy or a webhook refuses an object that the restore makes, such as a claim. Its owner may mend that.
	return c.unread(ctx, r, &unready{v1alpha1.ReasonNotAdmitted, err.Error(), false}, nil)
}

// bring takes the steps of a restore that has begun: the target is stopped, judged, locked, given its volumes,
// its spec and its hardware, and let go. One that the restore itself stops is judged before.
func (c *Controller) bring(ctx context.Context, r *restoring) (time.Duration, error) {
	if r.vm != nil && r.vm.DeletionTimestamp != nil {
		text := fmt.Sprintf("VirtualMachine '%s' is being deleted", r.vm.Name)
		return c.unread(ctx, r, &unready{v1alpha1.ReasonTargetNotReady, text, false}, nil)
	}
	if after, done, err := c.stopped(ctx, r); !done {
		return after, err
	}
	if r.restored() {
		return c.settle(ctx, r)
	}
	if why, err := c.read(ctx, r); err != nil || why != nil {
		return c.unread(ctx, r, why, err)
	}
	if done, err := c.judge(ctx, r); !done {
		return 0, err
	}
	if busy, err := c.locker().LockForRestore(ctx, r.vm, r.restore.Name); err != nil {
		return 0, err
	} else if busy != "" {
		return c.unread(ctx, r, &unready{v1alpha1.ReasonSourceBusy, busy, false}, nil)
	}
	if after, done, err := c.volumes(ctx, r); !done {
		return after, err
	}
	if err := c.activate(ctx, r); err != nil {
		return 0, err
	}
	return operation.NextStep, nil
}

// restoreProgress writes how far a restore is.
func (c *Controller) restoreProgress(ctx context.Context, r *restoring, what operation.ConditionText) error {
	return c.PatchStatus(ctx, r.restore, func() {
		if r.restore.Status == nil {
			r.restore.Status = &api.VirtualMachineRestoreStatus{}
		}
		status, now := r.restore.Status, c.Now()
		status.Complete = ptr.To(false)
		status.Conditions = operation.SetCondition(status.Conditions, api.ConditionProgressing, what, now)
		status.Conditions = operation.SetCondition(status.Conditions, api.ConditionReady, operation.False(what.Reason, what.Message), now)
	})
}

// failRestore ends a restore. Nothing of the VM has been changed, but for volumes that it made beside.
func (c *Controller) failRestore(ctx context.Context, r *restoring, reason, message string) error {
	if err := c.discard(ctx, r); err != nil {
		return err
	}
	write := c.PatchStatus(ctx, r.restore, func() {
		status, now := r.restore.Status, c.Now()
		status.Conditions = operation.SetCondition(status.Conditions, api.ConditionProgressing, operation.False(reason, message), now)
		status.Conditions = operation.SetCondition(status.Conditions, api.ConditionReady, operation.False(reason, message), now)
		status.Conditions = operation.SetCondition(status.Conditions, api.ConditionFailure, operation.True(reason, message), now)
	})
	return c.WarnAfterFailure(operation.Restore, write, r.restore, reason, message)
}

// unready is why a snapshot cannot be read. final reports that it never will be.
type unready struct {
	reason, message string
	final           bool
}

// read reads what the snapshot of a restore holds, without its record.
func (c *Controller) read(ctx context.Context, r *restoring) (*unready, error) {
	key := types.NamespacedName{Namespace: r.restore.Namespace, Name: r.restore.Spec.VirtualMachineSnapshotName}
	of, err := objects.GetOrNil(ctx, c.Live, key, &api.VirtualMachineSnapshot{})
	if err != nil {
		return nil, err
	}
	switch {
	case of == nil:
		// One that was judged before is not going to come: the VM must not be held for it.
		return &unready{v1alpha1.ReasonSnapshotNotReady, fmt.Sprintf("VirtualMachineSnapshot '%s' does not exist", key.Name), vmlock.IsLockedForRestore(r.vm, r.restore.Name)}, nil
	case operation.PhaseOf(of) == api.Failed:
		return &unready{v1alpha1.ReasonSnapshotNotReady, fmt.Sprintf("VirtualMachineSnapshot '%s' has failed", key.Name), true}, nil
	case of.Status == nil || !ptr.Deref(of.Status.ReadyToUse, false):
		return &unready{v1alpha1.ReasonSnapshotNotReady, fmt.Sprintf("VirtualMachineSnapshot '%s' is not ready to use", key.Name), false}, nil
	case r.vm != nil && ptr.Deref(of.Status.SourceUID, "") != r.vm.UID:
		return &unready{v1alpha1.ReasonTargetExists, fmt.Sprintf("VirtualMachine '%s' exists, and is not the one of the snapshot: restore into another name, "+
			"or delete it", r.vm.Name), true}, nil
	}
	key.Name = operation.ContentName(of.UID)
	content, err := objects.GetOrNil(ctx, c.Live, key, &api.VirtualMachineSnapshotContent{})
	if err != nil {
		return nil, err
	}
	if content == nil || content.DeletionTimestamp != nil || ptr.Deref(content.Spec.VirtualMachineSnapshotName, "") != of.Name {
		return &unready{v1alpha1.ReasonSnapshotNotReady, fmt.Sprintf("VirtualMachineSnapshotContent '%s' is gone", key.Name), true}, nil
	}
	if r.kept, err = snapshot.Read(content); err != nil {
		return &unready{v1alpha1.ReasonMalformed, fmt.Sprintf("VirtualMachineSnapshotContent '%s': %v", key.Name, err), true}, nil
	}
	return nil, nil
}

// unread reports why a restore cannot go on.
func (c *Controller) unread(ctx context.Context, r *restoring, why *unready, err error) (time.Duration, error) {
	switch {
	case err != nil:
		return 0, err
	case why.final:
		return 0, c.failRestore(ctx, r, why.reason, why.message)
	}
	after := operation.Backoff(operation.TimeSince(r.restore.Status.Conditions, api.ConditionReady, c.Now()))
	was := operation.FindCondition(r.restore.Status.Conditions, api.ConditionReady)
	first := why.reason == v1alpha1.ReasonNotAdmitted && was != nil && was.Reason != why.reason
	write := c.restoreProgress(ctx, r, operation.False(why.reason, why.message))
	if first {
		return after, c.WarnAfterWrite(write, r.restore, why.reason, why.message)
	}
	return after, write
}

// ownedBy is a reference to the VM that something belongs to. It does not block the deletion of the VM.
func ownedBy(vm *v1.VirtualMachine) *metav1.OwnerReference {
	owner := metav1.NewControllerRef(vm, v1.VirtualMachineGroupVersionKind)
	owner.BlockOwnerDeletion = nil
	return owner
}
