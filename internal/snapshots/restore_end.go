package snapshots

import (
	"context"
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/condition"
	"github.com/kilnvm/kiln/internal/lifecycle"
	"github.com/kilnvm/kiln/internal/ownership"
	"github.com/kilnvm/kiln/internal/snapshots/operation"
	"github.com/kilnvm/kiln/pkg/snapshot"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	v1 "kubevirt.io/api/core/v1"
	api "kubevirt.io/api/snapshot/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"
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
		if err := c.recall(ctx, r); err != nil {
			return err
		}
	}
	err := c.write(ctx, r, r.wanted)
	if operation.IsRefused(err) {
		return c.failRestore(ctx, r, v1alpha1.ReasonNotAdmitted, err.Error())
	}
	return err
}

// recall writes the hardware record of the target. That of a VM which does not exist yet must have no status: the controller of hardware keeps it then.
func (c *Controller) recall(ctx context.Context, r *restoring) error {
	key := client.ObjectKeyFromObject(r.wanted)
	hardware, err := lifecycle.Hardware(ctx, c.Live, key)
	if err != nil {
		return err
	}
	spec := r.kept.GuestHardware(r.wanted, r.restore)
	if hardware != nil {
		switch {
		case r.vm == nil && unassigned(hardware) && equality.Semantic.DeepEqual(hardware.Spec, spec):
			return nil
		case r.vm != nil && r.ownership(hardware) == ownership.Own:
			return c.Patch(ctx, hardware, func() { hardware.Spec = spec })
		}
		seen := client.Preconditions{UID: &hardware.UID, ResourceVersion: &hardware.ResourceVersion}
		if err := client.IgnoreNotFound(c.Live.Delete(ctx, hardware, seen)); err != nil {
			return err
		}
	}
	if spec.Hardware == nil {
		return nil // as it was: the first boot makes it
	}
	made := &v1alpha1.GuestHardware{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}, Spec: spec}
	made.Annotations = map[string]string{snapshot.Mark: snapshot.MarkOf(r.restore)}
	return c.Live.Create(ctx, made)
}

// discard deletes the hardware of a target that this restore does not make after all.
func (c *Controller) discard(ctx context.Context, r *restoring) error {
	if r.vm != nil {
		return nil
	}
	hardware, err := lifecycle.Hardware(ctx, c.Live, types.NamespacedName{Namespace: r.restore.Namespace, Name: r.restore.Spec.Target.Name})
	if err != nil || hardware == nil || hardware.Annotations[snapshot.Mark] != snapshot.MarkOf(r.restore) || !unassigned(hardware) {
		return err
	}
	return client.IgnoreNotFound(c.Live.Delete(ctx, hardware, client.Preconditions{UID: &hardware.UID, ResourceVersion: &hardware.ResourceVersion}))
}

// unassigned reports whether no guest has had the hardware yet.
func unassigned(hardware *v1alpha1.GuestHardware) bool {
	return hardware.Status.VirtualMachineUID == "" && hardware.Status.Guest == nil
}

// settle ends a restore whose VM is written: it writes the hardware, and looks once more. A guest that was started in the moment before the hold may have
// changed it.
func (c *Controller) settle(ctx context.Context, r *restoring) (time.Duration, error) {
	if r.held() {
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
	if err := c.release(ctx, r.vm, r.restore.Name); err != nil {
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
	return c.conform(ctx, r.vm, name)
}

// conform gives a VM that is held the hardware of a revision, or none for the empty name. written reports that it had another one, lost why the revision has
// no hardware.
func (c *Controller) conform(ctx context.Context, vm *v1.VirtualMachine, name string) (written bool, lost field.ErrorList, err error) {
	r := &restoring{vm: vm, wanted: vm, kept: snapshot.Kept{VM: vm, Revision: name}, restore: &api.VirtualMachineRestore{}}
	r.restore.Spec.Target.Name = vm.Name
	if lost, err := c.record(ctx, &r.kept); err != nil || len(lost) > 0 {
		return false, lost, err
	}
	hardware, err := lifecycle.Hardware(ctx, c.Live, client.ObjectKeyFromObject(vm))
	if err != nil {
		return false, nil, err
	}
	spec := r.kept.GuestHardware(vm, r.restore)
	if hardware == nil && spec.Hardware == nil || hardware != nil && equality.Semantic.DeepEqual(hardware.Spec, spec) {
		return false, nil, nil
	}
	return true, nil, c.recall(ctx, r)
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
