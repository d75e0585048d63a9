package snapshots

import (
	"context"
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/condition"
	"github.com/kilnvm/kiln/internal/lifecycle"
	"github.com/kilnvm/kiln/pkg/snapshot"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	api "kubevirt.io/api/snapshot/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ownership is how a GuestHardware relates to the target, which may not exist yet.
func (r *restoring) ownership(hardware *v1alpha1.GuestHardware) lifecycle.Ownership {
	return lifecycle.Guest{VM: r.wanted.UID, Identity: r.wanted.Annotations[v1alpha1.AnnotationIdentity]}.Ownership(hardware)
}

// activate writes what is left out, then the hardware, then the VM: it has the mark by which the restore is known to be done.
func (c *Controller) activate(ctx context.Context, r *restoring) error {
	if text := snapshot.Report(r.left); text != "" {
		if err := c.patchStatus(ctx, r.restore, func() {
			of := r.restore.Status
			of.Conditions = put(of.Conditions, v1alpha1.ConditionHardwareChanged, yes(v1alpha1.ReasonHardwareChanged, text), c.Now())
		}); err != nil {
			return err
		}
	}
	if err := c.recall(ctx, r); err != nil {
		return err
	}
	err := c.write(ctx, r, r.wanted)
	if r.vm == nil && refused(err) {
		return c.failRestore(ctx, r, v1alpha1.ReasonNotAdmitted, err.Error())
	}
	return err
}

// refused reports whether the API server will never take an object as it is.
func refused(err error) bool {
	return apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || apierrors.IsBadRequest(err) || condition.Oversized(err)
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
		unassigned := hardware.Status.VirtualMachineUID == "" && hardware.Status.Guest == nil
		switch {
		case r.vm == nil && unassigned && equality.Semantic.DeepEqual(hardware.Spec, spec):
			return nil
		case r.vm != nil && r.ownership(hardware) == lifecycle.Own:
			return c.patch(ctx, hardware, func() { hardware.Spec = spec })
		}
		seen := client.Preconditions{UID: &hardware.UID, ResourceVersion: &hardware.ResourceVersion}
		if err := client.IgnoreNotFound(c.Live.Delete(ctx, hardware, seen)); err != nil {
			return err
		}
	}
	if spec.Hardware == nil {
		return nil // as it was: the first boot makes it
	}
	return c.Live.Create(ctx, &v1alpha1.GuestHardware{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}, Spec: spec})
}

// settle ends a restore whose VM is written. A guest that was started in the moment before the hold may have changed the record: it is written once more.
func (c *Controller) settle(ctx context.Context, r *restoring) (time.Duration, error) {
	if r.held() {
		again, err := c.moved(ctx, r)
		if err != nil || again {
			return soon, err
		}
	}
	if err := c.own(ctx, r); err != nil {
		return 0, err
	}
	if err := c.release(ctx, r.vm, r.restore.Name); err != nil {
		return 0, err
	}
	if text := find(r.restore.Status.Conditions, v1alpha1.ConditionHardwareChanged); text != nil {
		c.warning(r.restore, v1alpha1.ReasonHardwareChanged, text.Message)
	}
	c.normal(r.restore, v1alpha1.ReasonRestoreComplete, "restored VirtualMachine "+r.vm.Name)
	return 0, ended(operationRestore, resultSucceeded, c.patchStatus(ctx, r.restore, func() {
		of, now := r.restore.Status, metav1.NewTime(c.Now().Truncate(time.Second))
		of.Complete, of.RestoreTime = ptr.To(true), &now
		of.Conditions = put(of.Conditions, api.ConditionProgressing, no(v1alpha1.ReasonCompleted, "the restore is complete"), c.Now())
		of.Conditions = put(of.Conditions, api.ConditionReady, yes(v1alpha1.ReasonCompleted, "the restore is complete"), c.Now())
	}))
}

// moved reports whether the record of the target is another one than that of the snapshot, and writes it. A snapshot that is gone by now cannot be asked.
func (c *Controller) moved(ctx context.Context, r *restoring) (bool, error) {
	if why, err := c.read(ctx, r); err != nil || why != nil {
		return false, err
	}
	if errs, err := c.record(ctx, r); err != nil || len(errs) > 0 {
		return false, err
	}
	r.wanted = r.vm
	hardware, err := lifecycle.Hardware(ctx, c.Live, client.ObjectKeyFromObject(r.vm))
	if err != nil {
		return false, err
	}
	spec := r.kept.GuestHardware(r.vm, r.restore)
	if hardware == nil && spec.Hardware == nil || hardware != nil && equality.Semantic.DeepEqual(hardware.Spec, spec) {
		return false, nil
	}
	return true, c.recall(ctx, r)
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
		err = c.patch(ctx, claim, func() {
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
