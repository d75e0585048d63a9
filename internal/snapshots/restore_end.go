package snapshots

import (
	"context"
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/condition"
	"github.com/kilnvm/kiln/internal/ownership"
	"github.com/kilnvm/kiln/internal/snapshots/operation"
	"github.com/kilnvm/kiln/internal/snapshots/vmlock"
	"github.com/kilnvm/kiln/pkg/snapshot"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	api "kubevirt.io/api/snapshot/v1beta1"
)

// ownership is how a GuestHardware relates to the target, which may not exist yet.
func (r *restoring) ownership(hardware *v1alpha1.GuestHardware) ownership.Ownership {
	return ownership.Guest{VM: r.wanted.UID, Identity: r.wanted.Annotations[v1alpha1.AnnotationIdentity]}.Ownership(hardware)
}

// activate writes what is left out, and then the target. A VM that exists comes before its hardware: it is refused, or it has at once the spec, the mark by
// which the restore is known to be done, and the name of the record, which settle gives it before it may start. A VM that does not exist comes after its
// hardware: its first boot must find that.
func (c *Controller) activate(ctx context.Context, r *restoring) error {
	if text := snapshot.Report(r.left); text != "" {
		if err := c.PatchStatus(ctx, r.restore, func() {
			of := r.restore.Status
			of.Conditions = operation.SetCondition(of.Conditions, v1alpha1.ConditionHardwareChanged, operation.True(v1alpha1.ReasonHardwareChanged, text), c.Now())
		}); err != nil {
			return err
		}
	}
	if r.vm == nil {
		if err := c.hardware().WriteForNewVM(ctx, r.wanted, r.kept, r.restore); err != nil {
			return err
		}
	}
	err := c.write(ctx, r, r.wanted)
	if operation.IsRefused(err) {
		return c.failRestore(ctx, r, v1alpha1.ReasonNotAdmitted, err.Error())
	}
	return err
}

// discard deletes the hardware of a target that this restore does not make after all.
func (c *Controller) discard(ctx context.Context, r *restoring) error {
	if r.vm != nil {
		return nil
	}
	return c.hardware().DeleteUnused(ctx, r.restore)
}

// settle ends a restore whose VM is written: it writes the hardware, and looks once more. A guest that was started in the moment before the hold may have
// changed it.
func (c *Controller) settle(ctx context.Context, r *restoring) (time.Duration, error) {
	if vmlock.IsLockedForRestore(r.vm, r.restore.Name) {
		written, lost, err := c.follows(ctx, r)
		switch {
		case err != nil || written:
			return operation.NextStep, err
		case len(lost) > 0:
			return operation.PollInterval, c.restoreProgress(ctx, r, operation.False(v1alpha1.ReasonNotActivatable, condition.Mistakes(lost)))
		}
	}
	if err := c.own(ctx, r); err != nil {
		return 0, err
	}
	if err := c.locker().UnlockFromRestore(ctx, r.vm, r.restore.Name); err != nil {
		return 0, err
	}
	write := operation.CountSuccess(operation.Restore, c.PatchStatus(ctx, r.restore, func() {
		of, now := r.restore.Status, metav1.NewTime(c.Now().Truncate(time.Second))
		of.Complete, of.RestoreTime = ptr.To(true), &now
		of.Conditions = operation.SetCondition(of.Conditions, api.ConditionProgressing, operation.False(v1alpha1.ReasonCompleted, "the restore is complete"), c.Now())
		of.Conditions = operation.SetCondition(of.Conditions, api.ConditionReady, operation.True(v1alpha1.ReasonCompleted, "the restore is complete"), c.Now())
	}))
	if write != nil {
		return 0, write
	}
	if text := operation.FindCondition(r.restore.Status.Conditions, v1alpha1.ConditionHardwareChanged); text != nil {
		c.RecordWarning(r.restore, v1alpha1.ReasonHardwareChanged, text.Message)
	}
	c.RecordNormal(r.restore, v1alpha1.ReasonRestoreComplete, "restored VirtualMachine "+r.vm.Name)
	return 0, nil
}

// follows gives the target the hardware that its spec came with. Its annotation names the record; where the owner has taken that away, the snapshot does, and
// where that is gone too, nothing is known.
func (c *Controller) follows(ctx context.Context, r *restoring) (written bool, lost field.ErrorList, err error) {
	name, has := r.vm.Annotations[v1alpha1.AnnotationRecord]
	if !has {
		if why, err := c.read(ctx, r); err != nil || why != nil {
			return false, nil, err
		}
		name = r.kept.Revision
	}
	return c.hardware().Apply(ctx, r.vm, name)
}

// own gives the VM the claims that were made before it.
func (c *Controller) own(ctx context.Context, r *restoring) error {
	for _, of := range r.restore.Status.Restores {
		claim, err := c.claim(ctx, r.restore.Namespace, of.PersistentVolumeClaimName)
		if err != nil {
			return err
		}
		if claim == nil || claim.Annotations[ownedLater] != r.restore.Name {
			continue
		}
		err = c.Patch(ctx, claim, func() {
			delete(claim.Annotations, ownedLater)
			if len(claim.OwnerReferences) == 0 {
				claim.OwnerReferences = []metav1.OwnerReference{*ownedBy(r.vm)}
			}
		})
		if err != nil {
			return err
		}
	}
	return nil
}
