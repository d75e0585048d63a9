package snapshots

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/condition"
	"github.com/kilnvm/kiln/pkg/snapshot"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	v1 "kubevirt.io/api/core/v1"
	api "kubevirt.io/api/snapshot/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

// Finalizers, which are KubeVirt's.
const (
	snapshotFinalizer = "snapshot.kubevirt.io/vmsnapshot-protection"
	contentFinalizer  = "snapshot.kubevirt.io/vmsnapshotcontent-protection"
	sourceFinalizer   = "snapshot.kubevirt.io/snapshot-source-protection"
)

// contentName is KubeVirt's name of the content of a snapshot.
func contentName(snapshot types.UID) string { return "vmsnapshot-content-" + string(snapshot) }

// taking is one snapshot with what it is about.
type taking struct {
	snapshot *api.VirtualMachineSnapshot
	// content and vm are nil if they do not exist.
	content *api.VirtualMachineSnapshotContent
	vm      *v1.VirtualMachine
}

// snapshot takes one step of a VirtualMachineSnapshot.
func (c *Controller) snapshot(ctx context.Context, key types.NamespacedName) (time.Duration, error) {
	found, err := get(ctx, c.Live, key, &api.VirtualMachineSnapshot{})
	if err != nil || found == nil {
		return 0, cmp.Or(err, c.unlockOrphans(ctx, key, found == nil))
	}
	t := taking{snapshot: found}
	at := types.NamespacedName{Namespace: key.Namespace, Name: contentName(found.UID)}
	if t.content, err = get(ctx, c.Live, at, &api.VirtualMachineSnapshotContent{}); err != nil {
		return 0, err
	}
	at.Name = found.Spec.Source.Name
	if t.vm, err = get(ctx, c.Live, at, &v1.VirtualMachine{}); err != nil {
		return 0, err
	}
	switch phase := phaseOf(found); {
	case found.DeletionTimestamp != nil:
		return c.forget(ctx, t)
	case phase == api.Failed:
		return 0, c.abandon(ctx, t)
	case phase == api.Succeeded:
		return c.follow(ctx, t)
	}
	if !controllerutil.ContainsFinalizer(found, snapshotFinalizer) {
		return soon, c.patch(ctx, found, func() { controllerutil.AddFinalizer(found, snapshotFinalizer) })
	}
	return c.take(ctx, t)
}

func phaseOf(of *api.VirtualMachineSnapshot) api.VirtualMachineSnapshotPhase {
	if of.Status == nil {
		return api.PhaseUnset
	}
	return of.Status.Phase
}

// take takes the steps of a snapshot that is neither done nor failed.
func (c *Controller) take(ctx context.Context, t taking) (time.Duration, error) {
	if t.snapshot.Status == nil {
		return soon, c.progress(ctx, t, yes(v1alpha1.ReasonInProgress, "the snapshot has begun"))
	}
	if errs := snapshot.CheckSnapshot(&t.snapshot.Spec); len(errs) > 0 {
		return 0, c.fail(ctx, t, v1alpha1.ReasonMalformed, condition.Mistakes(errs))
	}
	if c.late(t.snapshot) {
		return 0, c.fail(ctx, t, v1alpha1.ReasonDeadlineExceeded, "the snapshot was not taken within its failureDeadline")
	}
	if t.content != nil {
		return c.complete(ctx, t)
	}
	if t.vm == nil {
		return poll, c.progress(ctx, t, no(v1alpha1.ReasonSourceMissing, fmt.Sprintf("VirtualMachine '%s' does not exist", t.snapshot.Spec.Source.Name)))
	}
	if wait, why, err := c.lock(ctx, t); err != nil || wait {
		if err == nil && why != "" {
			err = c.progress(ctx, t, no(v1alpha1.ReasonSourceBusy, why))
		}
		return poll, err
	}
	return c.keep(ctx, t)
}

// late reports whether the time that a snapshot may take is over. A deadline of 0 is none.
func (c *Controller) late(of *api.VirtualMachineSnapshot) bool {
	limit := api.DefaultFailureDeadline
	if of.Spec.FailureDeadline != nil {
		limit = of.Spec.FailureDeadline.Duration
	}
	return limit > 0 && since(of.Status.Conditions, api.ConditionReady, c.Now()) > limit
}

// progress writes how far a snapshot is. Its condition Ready is False from the first time on.
func (c *Controller) progress(ctx context.Context, t taking, what said) error {
	return c.patchStatus(ctx, t.snapshot, func() {
		if t.snapshot.Status == nil {
			t.snapshot.Status = &api.VirtualMachineSnapshotStatus{}
		}
		status := t.snapshot.Status
		status.Phase, status.ReadyToUse = api.InProgress, ptr.To(false)
		status.Conditions = put(status.Conditions, api.ConditionProgressing, what, c.Now())
		status.Conditions = put(status.Conditions, api.ConditionReady, no(v1alpha1.ReasonInProgress, "the snapshot is not taken yet"), c.Now())
	})
}

// fail ends a snapshot. Its content goes, since it is not whole.
func (c *Controller) fail(ctx context.Context, t taking, reason, message string) error {
	c.warning(t.snapshot, reason, message)
	return ended(operationSnapshot, resultFailed, c.patchStatus(ctx, t.snapshot, func() {
		status, now := t.snapshot.Status, c.Now()
		status.Phase, status.ReadyToUse = api.Failed, ptr.To(false)
		status.Error = failure(message, now)
		status.Conditions = put(status.Conditions, api.ConditionProgressing, no(reason, message), now)
		status.Conditions = put(status.Conditions, api.ConditionReady, no(reason, message), now)
		status.Conditions = put(status.Conditions, api.ConditionFailure, yes(reason, message), now)
	}))
}

// lock keeps a VM from being deleted, started, stopped and given other volumes while it is snapshotted. Rules of validation read status.snapshotInProgress.
// wait reports that the VM is not locked yet, and why is what it waits for.
func (c *Controller) lock(ctx context.Context, t taking) (wait bool, why string, err error) {
	status := &t.vm.Status
	switch name := ptr.Deref(status.SnapshotInProgress, ""); {
	case name != "" && name != t.snapshot.Name:
		return true, fmt.Sprintf("snapshot '%s' of the VM is in progress", name), nil
	case status.RestoreInProgress != nil:
		return true, fmt.Sprintf("restore '%s' of the VM is in progress", *status.RestoreInProgress), nil
	case t.vm.DeletionTimestamp != nil:
		return true, "the VM is being deleted", nil
	case name == t.snapshot.Name && controllerutil.ContainsFinalizer(t.vm, sourceFinalizer):
		return false, "", nil
	}
	if err := c.patch(ctx, t.vm, func() { controllerutil.AddFinalizer(t.vm, sourceFinalizer) }); err != nil {
		return true, "", err
	}
	return false, "", c.patchStatus(ctx, t.vm, func() { status.SnapshotInProgress = ptr.To(t.snapshot.Name) })
}

// unlock ends the lock of a snapshot: the status first, since the finalizer alone keeps nobody from anything but the deletion.
func (c *Controller) unlock(ctx context.Context, vm *v1.VirtualMachine, name string) error {
	if vm == nil || ptr.Deref(vm.Status.SnapshotInProgress, name) != name {
		return nil
	}
	if err := c.patchStatus(ctx, vm, func() { vm.Status.SnapshotInProgress = nil }); err != nil {
		return client.IgnoreNotFound(err)
	}
	return client.IgnoreNotFound(c.patch(ctx, vm, func() { controllerutil.RemoveFinalizer(vm, sourceFinalizer) }))
}

// unlockOrphans unlocks the VMs that are locked for a snapshot or restore which is gone, because somebody took its finalizer away.
func (c *Controller) unlockOrphans(ctx context.Context, key types.NamespacedName, gone bool) error {
	if !gone {
		return nil
	}
	var list v1.VirtualMachineList
	if err := c.Client.List(ctx, &list, client.InNamespace(key.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return err
	}
	held := slices.DeleteFunc(slices.Clone(list.Items), func(vm v1.VirtualMachine) bool {
		return ptr.Deref(vm.Status.SnapshotInProgress, "") != key.Name
	})
	for i := range held {
		vm, err := get(ctx, c.Live, client.ObjectKeyFromObject(&held[i]), &v1.VirtualMachine{})
		if err == nil && vm != nil && vm.Status.SnapshotInProgress != nil {
			err = c.unlock(ctx, vm, key.Name)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
