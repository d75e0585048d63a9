package snapshots

import (
	"context"
	"fmt"
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/condition"
	"github.com/kilnvm/kiln/internal/objects"
	"github.com/kilnvm/kiln/internal/snapshots/operation"
	"github.com/kilnvm/kiln/pkg/snapshot"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	clone "kubevirt.io/api/clone/v1beta1"
	v1 "kubevirt.io/api/core/v1"
	api "kubevirt.io/api/snapshot/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// A clone is a snapshot and a restore into another VM, as in KubeVirt. Both are deleted when the clone is done.

// clone takes one step of a VirtualMachineClone.
func (c *Controller) clone(ctx context.Context, key types.NamespacedName) (time.Duration, error) {
	of, err := objects.GetOrNil(ctx, c.Live, key, &clone.VirtualMachineClone{})
	if err != nil || of == nil || of.DeletionTimestamp != nil {
		return 0, err
	}
	after, err := c.cloneStep(ctx, of)
	if !operation.IsRefused(err) || of.Status.Phase == clone.PhaseUnset || of.Status.Phase == clone.Succeeded {
		return after, err
	}
	return c.cloneWaits(of), c.cloneProgress(ctx, of, of.Status.Phase, operation.True(v1alpha1.ReasonNotAdmitted, err.Error()))
}

// cloneStep takes the step of a phase.
func (c *Controller) cloneStep(ctx context.Context, of *clone.VirtualMachineClone) (time.Duration, error) {
	switch of.Status.Phase {
	case clone.PhaseUnset:
		return c.beginClone(ctx, of)
	case clone.SnapshotInProgress:
		return c.snapshotForClone(ctx, of)
	case clone.RestoreInProgress, clone.CreatingTargetVM:
		return c.restoreForClone(ctx, of)
	case clone.Succeeded:
		return c.cleanClone(ctx, of)
	}
	return 0, nil
}

func (c *Controller) beginClone(ctx context.Context, of *clone.VirtualMachineClone) (time.Duration, error) {
	if errs := snapshot.CheckClone(&of.Spec); len(errs) > 0 {
		return 0, c.failClone(ctx, of, v1alpha1.ReasonMalformed, condition.Mistakes(errs))
	}
	_, err := operation.CreatorOf(of)
	if err == nil && of.Spec.Target == nil {
		err = operation.ErrNoCreator // the webhook that notes the asker names the target, too
	}
	if err != nil {
		return 0, c.failClone(ctx, of, v1alpha1.ReasonMalformed, err.Error())
	}
	return operation.NextStep, c.cloneProgress(ctx, of, clone.SnapshotInProgress, operation.True(v1alpha1.ReasonInProgress, "waits for a snapshot of the source"))
}

// ownedByClone is a reference to a clone, by which an object goes with it.
func ownedByClone(of *clone.VirtualMachineClone) []metav1.OwnerReference {
	owner := metav1.NewControllerRef(of, clone.VirtualMachineCloneKind)
	owner.BlockOwnerDeletion = nil
	return []metav1.OwnerReference{*owner}
}

// snapshotForClone makes a snapshot of a VM, and waits for it, or for the snapshot that is cloned.
func (c *Controller) snapshotForClone(ctx context.Context, of *clone.VirtualMachineClone) (time.Duration, error) {
	name := of.Spec.Source.Name
	if of.Spec.Source.Kind == v1.VirtualMachineGroupVersionKind.Kind {
		name = "tmp-snapshot-" + string(of.UID)
	}
	found, err := objects.GetOrNil(ctx, c.Live, types.NamespacedName{Namespace: of.Namespace, Name: name}, &api.VirtualMachineSnapshot{})
	switch {
	case err != nil:
		return 0, err
	case found == nil && name == of.Spec.Source.Name:
		missing := operation.True(v1alpha1.ReasonSourceMissing, "VirtualMachineSnapshot '"+name+"' does not exist")
		return c.cloneWaits(of), c.cloneProgress(ctx, of, clone.SnapshotInProgress, missing)
	case found == nil:
		return c.takeForClone(ctx, of, name)
	case name != of.Spec.Source.Name && !metav1.IsControlledBy(found, of):
		return 0, c.failClone(ctx, of, v1alpha1.ReasonTargetExists, fmt.Sprintf("VirtualMachineSnapshot '%s' is not one of this clone", name))
	case operation.PhaseOf(found) == api.Failed:
		text := operation.ErrorMessage(found.Status.Error, "it has failed")
		return 0, c.failClone(ctx, of, v1alpha1.ReasonSnapshotNotReady, fmt.Sprintf("VirtualMachineSnapshot '%s': %s", name, text))
	case found.Status == nil || !ptr.Deref(found.Status.ReadyToUse, false):
		return c.cloneWaits(of), nil
	}
	if err := c.PatchStatus(ctx, of, func() { of.Status.SnapshotName = &name }); err != nil {
		return 0, err
	}
	return operation.NextStep, c.cloneProgress(ctx, of, clone.RestoreInProgress, operation.True(v1alpha1.ReasonInProgress, "waits for the restore"))
}

func (c *Controller) takeForClone(ctx context.Context, of *clone.VirtualMachineClone, name string) (time.Duration, error) {
	source, err := objects.GetOrNil(ctx, c.Live, types.NamespacedName{Namespace: of.Namespace, Name: of.Spec.Source.Name}, &v1.VirtualMachine{})
	if err != nil {
		return 0, err
	}
	if source == nil {
		missing := operation.True(v1alpha1.ReasonSourceMissing, "VirtualMachine '"+of.Spec.Source.Name+"' does not exist")
		return c.cloneWaits(of), c.cloneProgress(ctx, of, clone.SnapshotInProgress, missing)
	}
	made := &api.VirtualMachineSnapshot{ObjectMeta: metav1.ObjectMeta{Namespace: of.Namespace, Name: name, OwnerReferences: ownedByClone(of)},
		Spec: api.VirtualMachineSnapshotSpec{Source: *of.Spec.Source.DeepCopy()}}
	if err := c.Live.Create(ctx, made); err != nil && !apierrors.IsAlreadyExists(err) {
		return 0, fmt.Errorf("creating VirtualMachineSnapshot '%s': %w", name, err)
	}
	return c.cloneWaits(of), nil
}

// restoreForClone restores the snapshot into the target, and waits for it.
func (c *Controller) restoreForClone(ctx context.Context, of *clone.VirtualMachineClone) (time.Duration, error) {
	name := "tmp-restore-" + string(of.UID)
	found, err := objects.GetOrNil(ctx, c.Live, types.NamespacedName{Namespace: of.Namespace, Name: name}, &api.VirtualMachineRestore{})
	switch {
	case err != nil:
		return 0, err
	case found == nil:
		return c.bringForClone(ctx, of, name)
	case !metav1.IsControlledBy(found, of):
		return 0, c.failClone(ctx, of, v1alpha1.ReasonTargetExists, fmt.Sprintf("VirtualMachineRestore '%s' is not one of this clone", name))
	case found.Status != nil && operation.HasFailed(found.Status.Conditions):
		why := operation.FindCondition(found.Status.Conditions, api.ConditionFailure)
		return 0, c.failClone(ctx, of, why.Reason, why.Message)
	case found.Status == nil || !ptr.Deref(found.Status.Complete, false):
		return c.cloneWaits(of), nil
	}
	if err := c.PatchStatus(ctx, of, func() {
		now := metav1.NewTime(c.Now().Truncate(time.Second))
		of.Status.TargetName, of.Status.CreationTime = &of.Spec.Target.Name, &now
	}); err != nil {
		return 0, err
	}
	c.RecordNormal(of, v1alpha1.ReasonCompleted, "made VirtualMachine "+of.Spec.Target.Name)
	return operation.NextStep, operation.CountSuccess(operation.Clone, c.cloneProgress(ctx, of, clone.Succeeded, operation.True(v1alpha1.ReasonCompleted, "the clone is complete")))
}

func (c *Controller) bringForClone(ctx context.Context, of *clone.VirtualMachineClone, name string) (time.Duration, error) {
	key := types.NamespacedName{Namespace: of.Namespace, Name: ptr.Deref(of.Status.SnapshotName, "")}
	from, err := objects.GetOrNil(ctx, c.Live, key, &api.VirtualMachineSnapshot{})
	if err != nil {
		return 0, err
	}
	if from == nil {
		return 0, c.failClone(ctx, of, v1alpha1.ReasonSourceMissing, fmt.Sprintf("VirtualMachineSnapshot '%s' is gone", key.Name))
	}
	key.Name = operation.ContentName(from.UID)
	content, err := objects.GetOrNil(ctx, c.Live, key, &api.VirtualMachineSnapshotContent{})
	if err != nil {
		return 0, err
	}
	if content == nil {
		return 0, c.failClone(ctx, of, v1alpha1.ReasonSourceMissing, fmt.Sprintf("VirtualMachineSnapshotContent '%s' is gone", key.Name))
	}
	kept, err := snapshot.Read(content)
	var patches []string
	if err == nil {
		patches, err = snapshot.ClonePatches(kept.VM, &of.Spec)
	}
	if err != nil {
		return 0, c.failClone(ctx, of, v1alpha1.ReasonMalformed, err.Error())
	}
	if of.Spec.Target.Name == kept.VM.Name { // a restore into this name would be the VM itself
		return 0, c.failClone(ctx, of, v1alpha1.ReasonMalformed, "spec.target.name: must be another VM than that of the snapshot")
	}
	made := &api.VirtualMachineRestore{
		ObjectMeta: metav1.ObjectMeta{Namespace: of.Namespace, Name: name, OwnerReferences: ownedByClone(of),
			Annotations: map[string]string{v1alpha1.AnnotationAsker: of.Annotations[v1alpha1.AnnotationAsker]}},
		Spec: api.VirtualMachineRestoreSpec{Target: *of.Spec.Target.DeepCopy(), VirtualMachineSnapshotName: from.Name, Patches: patches},
	}
	if value, asked := of.Annotations[v1alpha1.AnnotationLeaveOut]; asked {
		made.Annotations[v1alpha1.AnnotationLeaveOut] = value
	}
	if policy := of.Spec.VolumeNamePolicy; policy != nil {
		made.Spec.VolumeRestorePolicy = ptr.To(policy.ToVolumeRestorePolicy())
	}
	if err := c.Live.Create(ctx, made); err != nil && !apierrors.IsAlreadyExists(err) {
		return 0, fmt.Errorf("creating VirtualMachineRestore '%s': %w", name, err)
	}
	return c.cloneWaits(of), c.PatchStatus(ctx, of, func() { of.Status.RestoreName = &name })
}

// cleanClone removes what a clone was made by, when its claims no longer need it.
func (c *Controller) cleanClone(ctx context.Context, of *clone.VirtualMachineClone) (time.Duration, error) {
	if of.Status.RestoreName == nil && of.Status.SnapshotName == nil {
		return 0, nil
	}
	key := types.NamespacedName{Namespace: of.Namespace, Name: "tmp-restore-" + string(of.UID)}
	restore, err := objects.GetOrNil(ctx, c.Live, key, &api.VirtualMachineRestore{})
	if err != nil {
		return 0, err
	}
	if restore != nil && restore.Status != nil {
		for _, volume := range restore.Status.Restores {
			claim, err := c.claim(ctx, of.Namespace, volume.PersistentVolumeClaimName)
			if err != nil {
				return 0, err
			}
			if claim != nil && claim.Status.Phase != corev1.ClaimBound {
				return c.cloneWaits(of), nil
			}
		}
	}
	for _, object := range []client.Object{&api.VirtualMachineRestore{}, &api.VirtualMachineSnapshot{}} {
		object.SetNamespace(of.Namespace)
		object.SetName(key.Name)
		if err := client.IgnoreNotFound(c.Live.Delete(ctx, object)); err != nil {
			return 0, err
		}
		key.Name = "tmp-snapshot-" + string(of.UID)
	}
	return 0, c.PatchStatus(ctx, of, func() { of.Status.RestoreName, of.Status.SnapshotName = nil, nil })
}
