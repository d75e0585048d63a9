package vmlock

import (
	"context"
	"time"

	"github.com/kilnvm/kiln/internal/objects"
	"github.com/kilnvm/kiln/internal/snapshots/quiesce"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	v1 "kubevirt.io/api/core/v1"
	api "kubevirt.io/api/snapshot/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

// OrphanReconciler unlocks VMs whose snapshot or restore was deleted without running its finalizer. At the start of the controller it reconciles each locked
// VM, because the snapshot or restore may have been deleted while no controller ran.
type OrphanReconciler struct {
	*Locker
	// Cache reads from informers.
	Cache    client.Reader
	Quiescer *quiesce.Quiescer
}

// UnlockAll unlocks the VMs that a deleted snapshot or restore of this name has locked.
func (r *OrphanReconciler) UnlockAll(ctx context.Context, deleted types.NamespacedName) error {
	var list v1.VirtualMachineList
	if err := r.Cache.List(ctx, &list, client.InNamespace(deleted.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return err
	}
	for i := range list.Items {
		status := &list.Items[i].Status
		if ptr.Deref(status.SnapshotInProgress, "") != deleted.Name && ptr.Deref(status.RestoreInProgress, "") != deleted.Name {
			continue
		}
		if _, err := r.Reconcile(ctx, client.ObjectKeyFromObject(&list.Items[i])); err != nil {
			return err
		}
	}
	return nil
}

// Reconcile unlocks a VM from a snapshot and a restore that no longer exist.
func (r *OrphanReconciler) Reconcile(ctx context.Context, key types.NamespacedName) (time.Duration, error) {
	vm, err := objects.GetOrNil(ctx, r.Live, key, &v1.VirtualMachine{})
	if err != nil || vm == nil {
		return 0, err
	}
	if err := r.unlockFromSnapshot(ctx, vm); err != nil {
		return 0, err
	}
	return 0, r.unlockFromRestore(ctx, vm)
}

func (r *OrphanReconciler) unlockFromSnapshot(ctx context.Context, vm *v1.VirtualMachine) error {
	name := ptr.Deref(vm.Status.SnapshotInProgress, "")
	if name == "" && !controllerutil.ContainsFinalizer(vm, Finalizer) {
		return nil
	}
	if name != "" {
		key := types.NamespacedName{Namespace: vm.Namespace, Name: name}
		owner, err := objects.GetOrNil(ctx, r.Live, key, &api.VirtualMachineSnapshot{})
		if err != nil || owner != nil && owner.Spec.Source.Name == vm.Name {
			return err
		}
	}
	// An unlocked VM is not reconciled again, so it is unlocked only after its guest was asked to thaw.
	if err := r.Quiescer.ThawOrphan(ctx, vm); err != nil {
		return err
	}
	return r.UnlockFromSnapshot(ctx, vm, name)
}

func (r *OrphanReconciler) unlockFromRestore(ctx context.Context, vm *v1.VirtualMachine) error {
	name := ptr.Deref(vm.Status.RestoreInProgress, "")
	if name == "" {
		return nil
	}
	owner, err := objects.GetOrNil(ctx, r.Live, types.NamespacedName{Namespace: vm.Namespace, Name: name}, &api.VirtualMachineRestore{})
	if err != nil || owner != nil && owner.Spec.Target.Name == vm.Name {
		return err
	}
	return r.UnlockFromRestore(ctx, vm, name)
}
