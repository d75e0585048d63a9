package vmclone

import (
	"context"
	"fmt"
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/objects"
	"github.com/kilnvm/kiln/internal/snapshots/operation"
	"github.com/kilnvm/kiln/pkg/snapshot"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	clone "kubevirt.io/api/clone/v1beta1"
	api "kubevirt.io/api/snapshot/v1beta1"
)

// ensureRestore restores the snapshot into the target, and ends the clone when the restore is complete.
type ensureRestore struct{ statusWriter }

func (e ensureRestore) Run(ctx context.Context, cloned *clone.VirtualMachineClone) (operation.Result, error) {
	name := restoreName(cloned)
	found, err := objects.GetOrNil(ctx, e.Live, types.NamespacedName{Namespace: cloned.Namespace, Name: name}, &api.VirtualMachineRestore{})
	switch {
	case err != nil:
		return operation.Result{}, err
	case found == nil:
		return e.createRestore(ctx, cloned, name)
	case !metav1.IsControlledBy(found, cloned):
		return e.failClone(ctx, cloned, v1alpha1.ReasonTargetExists, fmt.Sprintf("VirtualMachineRestore '%s' exists, and does not belong to this clone", name))
	case found.Status != nil && operation.HasFailed(found.Status.Conditions):
		failure := operation.FindCondition(found.Status.Conditions, api.ConditionFailure)
		return e.failClone(ctx, cloned, failure.Reason, failure.Message)
	case found.Status == nil || !ptr.Deref(found.Status.Complete, false):
		return e.waitForObjects(cloned)
	}
	return e.completeClone(ctx, cloned)
}

func (e ensureRestore) completeClone(ctx context.Context, cloned *clone.VirtualMachineClone) (operation.Result, error) {
	if err := e.PatchStatus(ctx, cloned, func() {
		now := metav1.NewTime(e.Now().Truncate(time.Second))
		cloned.Status.TargetName, cloned.Status.CreationTime = &cloned.Spec.Target.Name, &now
	}); err != nil {
		return operation.Result{}, err
	}
	completed := operation.ConditionTrue(v1alpha1.ReasonCompleted, "the clone is complete")
	write := operation.CountSuccess(operation.Clone, e.reportPhase(ctx, cloned, clone.Succeeded, completed))
	if write == nil {
		e.RecordNormal(cloned, v1alpha1.ReasonCompleted, "created VirtualMachine "+cloned.Spec.Target.Name)
	}
	return operation.RetryAfter(operation.NextStep), write
}

// createRestore creates the restore from the snapshot of the clone.
func (e ensureRestore) createRestore(ctx context.Context, cloned *clone.VirtualMachineClone, name string) (operation.Result, error) {
	key := types.NamespacedName{Namespace: cloned.Namespace, Name: ptr.Deref(cloned.Status.SnapshotName, "")}
	from, err := objects.GetOrNil(ctx, e.Live, key, &api.VirtualMachineSnapshot{})
	if err != nil {
		return operation.Result{}, err
	}
	if from == nil {
		return e.failClone(ctx, cloned, v1alpha1.ReasonSourceMissing, fmt.Sprintf("VirtualMachineSnapshot '%s' is gone", key.Name))
	}
	key.Name = operation.ContentName(from.UID)
	content, err := objects.GetOrNil(ctx, e.Live, key, &api.VirtualMachineSnapshotContent{})
	if err != nil {
		return operation.Result{}, err
	}
	if content == nil {
		return e.failClone(ctx, cloned, v1alpha1.ReasonSourceMissing, fmt.Sprintf("VirtualMachineSnapshotContent '%s' is gone", key.Name))
	}
	kept, err := snapshot.Read(content)
	var patches []string
	if err == nil {
		patches, err = snapshot.ClonePatches(kept.VM, &cloned.Spec)
	}
	if err != nil {
		return e.failClone(ctx, cloned, v1alpha1.ReasonMalformed, err.Error())
	}
	if cloned.Spec.Target.Name == kept.VM.Name { // a restore into this name would overwrite the VM itself
		return e.failClone(ctx, cloned, v1alpha1.ReasonMalformed, "spec.target.name: must not be the VM of the snapshot")
	}
	made := &api.VirtualMachineRestore{
		ObjectMeta: metav1.ObjectMeta{Namespace: cloned.Namespace, Name: name, OwnerReferences: ownerReferences(cloned),
			Annotations: map[string]string{v1alpha1.AnnotationAsker: cloned.Annotations[v1alpha1.AnnotationAsker]}},
		Spec: api.VirtualMachineRestoreSpec{Target: *cloned.Spec.Target.DeepCopy(), VirtualMachineSnapshotName: from.Name, Patches: patches},
	}
	if value, has := cloned.Annotations[v1alpha1.AnnotationLeaveOut]; has {
		made.Annotations[v1alpha1.AnnotationLeaveOut] = value
	}
	if policy := cloned.Spec.VolumeNamePolicy; policy != nil {
		made.Spec.VolumeRestorePolicy = ptr.To(policy.ToVolumeRestorePolicy())
	}
	if err := e.Live.Create(ctx, made); err != nil && !apierrors.IsAlreadyExists(err) {
		return operation.Result{}, fmt.Errorf("creating VirtualMachineRestore '%s': %w", name, err)
	}
	return operation.RetryAfter(e.pollDelay(cloned)), e.PatchStatus(ctx, cloned, func() { cloned.Status.RestoreName = &name })
}
