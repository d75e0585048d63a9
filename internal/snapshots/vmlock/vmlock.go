// Package vmlock locks VMs for snapshots and restores.
//
// A snapshot locks its VM by status.snapshotInProgress and a finalizer, a restore locks its target by status.restoreInProgress. Admission and the
// controller of VMs read both fields: the VM cannot be deleted, started, stopped or given other volumes.
package vmlock

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/snapshots/hardware"
	"github.com/kilnvm/kiln/internal/snapshots/operation"
	"github.com/kilnvm/kiln/pkg/snapshot"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

// Finalizer is KubeVirt's finalizer of a VM that a snapshot has locked.
const Finalizer = "snapshot.kubevirt.io/snapshot-source-protection"

// Locker locks and unlocks VMs.
type Locker struct {
	*operation.Cluster
	Hardware hardware.Writer
}

// IsLocked reports whether a VM, as it is in the cache, is locked.
func IsLocked(object client.Object) bool {
	vm, is := object.(*v1.VirtualMachine)
	return is && (vm.Status.SnapshotInProgress != nil || vm.Status.RestoreInProgress != nil || controllerutil.ContainsFinalizer(vm, Finalizer))
}

// otherOperation returns the snapshot or restore that has locked a VM, except the given ones, as text.
func otherOperation(vm *v1.VirtualMachine, snapshot, restore string) string {
	if name := ptr.Deref(vm.Status.SnapshotInProgress, ""); name != "" && name != snapshot {
		return fmt.Sprintf("snapshot '%s' of the VM is in progress", name)
	}
	if name := vm.Status.RestoreInProgress; name != nil && *name != restore {
		return fmt.Sprintf("restore '%s' of the VM is in progress", *name)
	}
	return ""
}

// LockForSnapshot locks a VM for the snapshot of a name. It returns why the VM cannot be locked yet, and nothing if it is locked.
//
// The field of the status is written before the finalizer, and removed after it, because it names the owner of the finalizer.
func (l *Locker) LockForSnapshot(ctx context.Context, vm *v1.VirtualMachine, snapshot string) (busy string, err error) {
	if busy := otherOperation(vm, snapshot, ""); busy != "" {
		return busy, nil
	}
	if vm.DeletionTimestamp != nil {
		return "the VM is being deleted", nil
	}
	if err := l.PatchStatus(ctx, vm, func() { vm.Status.SnapshotInProgress = &snapshot }); err != nil {
		return "", err
	}
	return "", l.Patch(ctx, vm, func() { controllerutil.AddFinalizer(vm, Finalizer) })
}

// UnlockFromSnapshot ends the lock of the snapshot of a name. The VM may be nil.
func (l *Locker) UnlockFromSnapshot(ctx context.Context, vm *v1.VirtualMachine, snapshot string) error {
	if vm == nil || ptr.Deref(vm.Status.SnapshotInProgress, snapshot) != snapshot {
		return nil
	}
	if err := l.Patch(ctx, vm, func() { controllerutil.RemoveFinalizer(vm, Finalizer) }); err != nil {
		return client.IgnoreNotFound(err)
	}
	return client.IgnoreNotFound(l.PatchStatus(ctx, vm, func() { vm.Status.SnapshotInProgress = nil }))
}

// IsLockedForRestore reports whether the restore of a name has locked a VM, which may be nil.
func IsLockedForRestore(vm *v1.VirtualMachine, restore string) bool {
	return vm != nil && ptr.Deref(vm.Status.RestoreInProgress, "") == restore
}

// BlockedForRestore returns why the restore of a name cannot lock a VM, and nothing if it can or has. The VM may be nil.
func BlockedForRestore(vm *v1.VirtualMachine, restore string) (busy string) {
	if vm == nil || IsLockedForRestore(vm, restore) {
		return ""
	}
	return otherOperation(vm, "", restore)
}

// errLocked is the error of a step that has locked the VM.
var errLocked = errors.New("the VM was locked for the restore in this step: it is read again, because it may have been started before")

// LockForRestore locks a VM, which may be nil, for the restore of a name. After it has locked the VM it returns a conflict, so that the next step
// reads the VM and its VMI again: the VM may have been started until now. It returns why the VM cannot be locked yet, and nothing if it was locked before.
func (l *Locker) LockForRestore(ctx context.Context, vm *v1.VirtualMachine, restore string) (busy string, err error) {
	if busy := BlockedForRestore(vm, restore); busy != "" || vm == nil || IsLockedForRestore(vm, restore) {
		return busy, nil
	}
	if err := l.PatchStatus(ctx, vm, func() { vm.Status.RestoreInProgress = &restore }); err != nil {
		return "", err
	}
	return "", apierrors.NewConflict(v1.GroupVersion.WithResource("virtualmachines").GroupResource(), vm.Name, errLocked)
}

// UnlockFromRestore ends the lock of the restore of a name, however the restore has ended. The VM may be nil. If the VM has the spec of the snapshot, it
// first gets the hardware of the snapshot: it must start with both, or with neither.
func (l *Locker) UnlockFromRestore(ctx context.Context, vm *v1.VirtualMachine, restore string) error {
	if vm == nil || ptr.Deref(vm.Status.RestoreInProgress, "") != restore {
		return nil
	}
	var mistakes field.ErrorList
	if record, has := vm.Annotations[v1alpha1.AnnotationRecord]; has && strings.HasPrefix(vm.Annotations[snapshot.Mark], restore+"-") {
		var err error
		if _, mistakes, err = l.Hardware.ApplyRevision(ctx, vm, record); err != nil {
			return err
		}
	}
	if err := l.Patch(ctx, vm, func() { delete(vm.Annotations, v1alpha1.AnnotationRecord) }); err != nil {
		return client.IgnoreNotFound(err)
	}
	if len(mistakes) > 0 {
		l.RecordWarning(vm, v1alpha1.ReasonNotActivatable, mistakes.ToAggregate().Error())
	}
	return client.IgnoreNotFound(l.PatchStatus(ctx, vm, func() { vm.Status.RestoreInProgress = nil }))
}
