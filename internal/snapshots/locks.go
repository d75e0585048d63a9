package snapshots

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/objects"
	"github.com/kilnvm/kiln/pkg/snapshot"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	v1 "kubevirt.io/api/core/v1"
	api "kubevirt.io/api/snapshot/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

// A snapshot locks its VM by status.snapshotInProgress and a finalizer, a restore holds it by status.restoreInProgress. Rules of validation and the controller
// of VMs read both fields.

// lock keeps a VM from being deleted, started, stopped and given other volumes while it is snapshotted. wait reports that the VM is not locked yet, and why is
// what it waits for. The status comes first, and goes last: it names the snapshot, so that nobody has to guess whose the finalizer is.
func (c *Controller) lock(ctx context.Context, t taking) (wait bool, why string, err error) {
	status := &t.vm.Status
	switch name := ptr.Deref(status.SnapshotInProgress, ""); {
	case name != "" && name != t.snapshot.Name:
		return true, fmt.Sprintf("snapshot '%s' of the VM is in progress", name), nil
	case status.RestoreInProgress != nil:
		return true, fmt.Sprintf("restore '%s' of the VM is in progress", *status.RestoreInProgress), nil
	case t.vm.DeletionTimestamp != nil:
		return true, "the VM is being deleted", nil
	}
	if err := c.PatchStatus(ctx, t.vm, func() { status.SnapshotInProgress = ptr.To(t.snapshot.Name) }); err != nil {
		return true, "", err
	}
	return false, "", c.Patch(ctx, t.vm, func() { controllerutil.AddFinalizer(t.vm, sourceFinalizer) })
}

// unlock ends the lock of a snapshot.
func (c *Controller) unlock(ctx context.Context, vm *v1.VirtualMachine, name string) error {
	if vm == nil || ptr.Deref(vm.Status.SnapshotInProgress, name) != name {
		return nil
	}
	if err := c.Patch(ctx, vm, func() { controllerutil.RemoveFinalizer(vm, sourceFinalizer) }); err != nil {
		return client.IgnoreNotFound(err)
	}
	return client.IgnoreNotFound(c.PatchStatus(ctx, vm, func() { vm.Status.SnapshotInProgress = nil }))
}

// errHeld has everything read again: the VM may have been started until now.
var errHeld = errors.New("it is held since this moment")

// busy returns what else works on the target of a restore, nil for nothing.
func (r *restoring) busy() *unready {
	switch {
	case r.vm == nil || r.held():
		return nil
	case r.vm.Status.SnapshotInProgress != nil:
		return &unready{v1alpha1.ReasonSourceBusy, fmt.Sprintf("snapshot '%s' of the VM is in progress", *r.vm.Status.SnapshotInProgress), false}
	case r.vm.Status.RestoreInProgress != nil:
		return &unready{v1alpha1.ReasonSourceBusy, fmt.Sprintf("restore '%s' of the VM is in progress", *r.vm.Status.RestoreInProgress), false}
	}
	return nil
}

// hold keeps the target from being started. A VM that was started in this moment is found by the next step, which reads it again. It returns what the restore
// waits for, nil for nothing.
func (c *Controller) hold(ctx context.Context, r *restoring) (*unready, error) {
	if why := r.busy(); why != nil || r.vm == nil || r.held() {
		return why, nil
	}
	if err := c.PatchStatus(ctx, r.vm, func() { r.vm.Status.RestoreInProgress = ptr.To(r.restore.Name) }); err != nil {
		return nil, err
	}
	return nil, apierrors.NewConflict(v1.GroupVersion.WithResource("virtualmachines").GroupResource(), r.vm.Name, errHeld)
}

// release ends the hold of a restore, whatever has become of it. A VM that has the spec of the snapshot gets its hardware first: it must start with both, or
// with neither.
func (c *Controller) release(ctx context.Context, vm *v1.VirtualMachine, name string) error {
	if vm == nil || ptr.Deref(vm.Status.RestoreInProgress, "") != name {
		return nil
	}
	var lost field.ErrorList
	if record, has := vm.Annotations[v1alpha1.AnnotationRecord]; has && strings.HasPrefix(vm.Annotations[snapshot.Mark], name+"-") {
		var err error
		if _, lost, err = c.conform(ctx, vm, record); err != nil {
			return err
		}
	}
	if err := c.Patch(ctx, vm, func() { delete(vm.Annotations, v1alpha1.AnnotationRecord) }); err != nil {
		return client.IgnoreNotFound(err)
	}
	if len(lost) > 0 {
		c.RecordWarning(vm, v1alpha1.ReasonNotActivatable, lost.ToAggregate().Error())
	}
	return client.IgnoreNotFound(c.PatchStatus(ctx, vm, func() { vm.Status.RestoreInProgress = nil }))
}

// freeOrphans frees the VMs that a snapshot or restore has locked which is gone, because somebody took its finalizer away.
func (c *Controller) freeOrphans(ctx context.Context, gone types.NamespacedName) error {
	var list v1.VirtualMachineList
	if err := c.Client.List(ctx, &list, client.InNamespace(gone.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return err
	}
	for i := range list.Items {
		of := &list.Items[i].Status
		if ptr.Deref(of.SnapshotInProgress, "") != gone.Name && ptr.Deref(of.RestoreInProgress, "") != gone.Name {
			continue
		}
		if _, err := c.free(ctx, client.ObjectKeyFromObject(&list.Items[i])); err != nil {
			return err
		}
	}
	return nil
}

// isLocked reports whether a VM is locked or held, as far as a cache knows.
func isLocked(object client.Object) bool {
	vm, is := object.(*v1.VirtualMachine)
	return is && (vm.Status.SnapshotInProgress != nil || vm.Status.RestoreInProgress != nil || controllerutil.ContainsFinalizer(vm, sourceFinalizer))
}

// free frees a VM from what no longer works on it. It is asked for each locked VM when the controller starts: what has locked it may have gone while none ran.
func (c *Controller) free(ctx context.Context, key types.NamespacedName) (time.Duration, error) {
	vm, err := objects.GetOrNil(ctx, c.Live, key, &v1.VirtualMachine{})
	if err != nil || vm == nil {
		return 0, err
	}
	name, at := ptr.Deref(vm.Status.SnapshotInProgress, ""), key
	if at.Name = name; name != "" || controllerutil.ContainsFinalizer(vm, sourceFinalizer) {
		of := (*api.VirtualMachineSnapshot)(nil)
		if name != "" {
			of, err = objects.GetOrNil(ctx, c.Live, at, &api.VirtualMachineSnapshot{})
		}
		if err == nil && (of == nil || of.Spec.Source.Name != vm.Name) {
			// An unlocked VM is not looked at again: it is unlocked only after its guest was asked to thaw.
			if err = c.Quiescer.ThawOrphan(ctx, vm); err == nil {
				err = c.unlock(ctx, vm, name)
			}
		}
	}
	if at.Name = ptr.Deref(vm.Status.RestoreInProgress, ""); err != nil || at.Name == "" {
		return 0, err
	}
	of, err := objects.GetOrNil(ctx, c.Live, at, &api.VirtualMachineRestore{})
	if err != nil || of != nil && of.Spec.Target.Name == vm.Name {
		return 0, err
	}
	return 0, c.release(ctx, vm, at.Name)
}
