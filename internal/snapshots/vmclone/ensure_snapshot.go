package vmclone

import (
	"context"
	"fmt"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/objects"
	"github.com/kilnvm/kiln/internal/snapshots/operation"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	clone "kubevirt.io/api/clone/v1beta1"
	v1 "kubevirt.io/api/core/v1"
	api "kubevirt.io/api/snapshot/v1beta1"
)

// ensureSnapshot creates the snapshot of a clone, or takes the one that is the source of the clone, and waits until it is ready.
type ensureSnapshot struct{ statusWriter }

func (e ensureSnapshot) Run(ctx context.Context, cloned *clone.VirtualMachineClone) (operation.Result, error) {
	name, sourceIsVM := cloned.Spec.Source.Name, cloned.Spec.Source.Kind == v1.VirtualMachineGroupVersionKind.Kind
	if sourceIsVM {
		name = snapshotName(cloned)
	}
	found, err := objects.GetOrNil(ctx, e.Live, types.NamespacedName{Namespace: cloned.Namespace, Name: name}, &api.VirtualMachineSnapshot{})
	switch {
	case err != nil:
		return operation.Result{}, err
	case found == nil && !sourceIsVM:
		return e.waitForSource(ctx, cloned)
	case found == nil:
		return e.createSnapshot(ctx, cloned, name)
	case sourceIsVM && !metav1.IsControlledBy(found, cloned):
		return e.failClone(ctx, cloned, v1alpha1.ReasonTargetExists, fmt.Sprintf("VirtualMachineSnapshot '%s' exists, and does not belong to this clone", name))
	case operation.PhaseOf(found) == api.Failed:
		text := fmt.Sprintf("VirtualMachineSnapshot '%s': %s", name, operation.ErrorMessage(found.Status.Error, "it has failed"))
		return e.failClone(ctx, cloned, v1alpha1.ReasonSnapshotNotReady, text)
	case found.Status == nil || !ptr.Deref(found.Status.ReadyToUse, false):
		return e.waitForObjects(cloned)
	}
	if err := e.PatchStatus(ctx, cloned, func() { cloned.Status.SnapshotName = &name }); err != nil {
		return operation.Result{}, err
	}
	ready := operation.ConditionTrue(v1alpha1.ReasonInProgress, "waits for the restore")
	return operation.RetryAfter(operation.NextStep), e.reportPhase(ctx, cloned, clone.RestoreInProgress, ready)
}

// createSnapshot creates the snapshot of a VM.
func (e ensureSnapshot) createSnapshot(ctx context.Context, cloned *clone.VirtualMachineClone, name string) (operation.Result, error) {
	key := types.NamespacedName{Namespace: cloned.Namespace, Name: cloned.Spec.Source.Name}
	source, err := objects.GetOrNil(ctx, e.Live, key, &v1.VirtualMachine{})
	if err != nil {
		return operation.Result{}, err
	}
	if source == nil {
		return e.waitForSource(ctx, cloned)
	}
	made := &api.VirtualMachineSnapshot{
		ObjectMeta: metav1.ObjectMeta{Namespace: cloned.Namespace, Name: name, OwnerReferences: ownerReferences(cloned)},
		Spec:       api.VirtualMachineSnapshotSpec{Source: *cloned.Spec.Source.DeepCopy()}}
	if err := e.Live.Create(ctx, made); err != nil && !apierrors.IsAlreadyExists(err) {
		return operation.Result{}, fmt.Errorf("creating VirtualMachineSnapshot '%s': %w", name, err)
	}
	return e.waitForObjects(cloned)
}
