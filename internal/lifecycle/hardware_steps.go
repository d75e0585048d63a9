package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/condition"
	"github.com/kilnvm/kiln/internal/ownership"
	"github.com/kilnvm/kiln/pkg/record"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// assign names VM, VMI, node and FrontendProfile in the status of the GuestHardware, which it creates if need be. The launcher of that node may then write
// spec.hardware and start the guest.
func (r *hardwareReconciler) assign(ctx context.Context, o objects) error {
	key := client.ObjectKeyFromObject(o.vmi)
	guest, found := o.guest()
	if !found {
		if o.vm == nil || controlledByVM(o.vmi) {
			return nil // the cache does not have the VM yet, or the VM is gone and the garbage collector deletes the VMI
		}
		return r.refuse(ctx, o.vmi, v1alpha1.ReasonNameTaken,
			fmt.Sprintf("the hardware of this name belongs to VirtualMachine '%s': delete this virtual machine instance", o.vm.Name))
	}
	if guest.VM == "" {
		if current, err := r.isCurrent(ctx, key, &v1.VirtualMachine{}, ""); err != nil || !current {
			return err
		}
	}
	frontend, err := r.frontend(ctx, o.vmi)
	if err != nil { // tried again: a backup tool may restore the revision
		return errors.Join(err, r.refuse(ctx, o.vmi, v1alpha1.ReasonFailedPin, err.Error()))
	}
	switch guest.Ownership(o.hardware) {
	case ownership.Foreign:
		return r.refuse(ctx, o.vmi, v1alpha1.ReasonHardwareForeign, ownership.ForeignMessage(o.hardware))
	case ownership.Stale:
		if err := r.delete(ctx, o.hardware); err != nil {
			return err
		}
		fallthrough
	case ownership.Absent:
		created := &v1alpha1.GuestHardware{ObjectMeta: metav1.ObjectMeta{Namespace: o.vmi.Namespace, Name: o.vmi.Name}}
		created.Spec.Identity = guest.Identity
		if err := r.live.Create(ctx, created); err != nil {
			return fmt.Errorf("creating GuestHardware '%s': %w", o.vmi.Name, err)
		}
		o.hardware = created
	}
	r.previous.add(key, assignment{o.vmi.UID, o.hardware.Spec.Hardware})
	return r.patchStatus(ctx, o.hardware, func(status *v1alpha1.GuestHardwareStatus) {
		status.VirtualMachineUID, status.Guest = guest.VM, &v1alpha1.HardwareUser{
			UID: o.vmi.UID, NodeName: o.vmi.Status.NodeName, Frontend: frontend.DeepCopy(), // the answer is decoded into it
		}
	})
}

// countBoot counts a boot in the status, and reports in an event what hardware the boot changed.
func (r *hardwareReconciler) countBoot(ctx context.Context, o objects) error {
	booted := o.hardware.Spec.Hardware
	err := r.patchStatus(ctx, o.hardware, func(status *v1alpha1.GuestHardwareStatus) {
		status.Boots++
		status.LastBoot = &v1alpha1.HardwareBoot{UID: o.vmi.UID, Time: metav1.NewTime(r.now())}
		if booted != nil {
			status.LastBoot.Digest = booted.Digest
		}
	})
	if err != nil {
		return err
	}
	previous := r.previous.remove(client.ObjectKeyFromObject(o.vmi))
	if note := hardwareChange(previous.hardware, booted); previous.vmi == o.vmi.UID && note != "" {
		var about runtime.Object = o.vmi
		if o.vm != nil {
			about = o.vm
		}
		r.events.Eventf(about, nil, corev1.EventTypeNormal, v1alpha1.ReasonHardwareChanged, "Reconcile", "%s", condition.Note(note))
	}
	return nil
}

// updateIdentity copies the seed of the VM into the record.
func (r *hardwareReconciler) updateIdentity(ctx context.Context, o objects) error {
	updated := o.hardware.DeepCopy()
	updated.Spec.Identity = o.vm.Annotations[v1alpha1.AnnotationIdentity]
	return client.IgnoreNotFound(r.live.Patch(ctx, updated, client.MergeFromWithOptions(o.hardware, client.MergeFromWithOptimisticLock{})))
}

// remove deletes a GuestHardware whose guest is gone. It asks the API server first: a cache that lags behind would have it delete the hardware
// of a VM or VMI that has just been created.
func (r *hardwareReconciler) remove(ctx context.Context, o objects) error {
	key := client.ObjectKeyFromObject(o.hardware)
	var vm, vmi types.UID
	if o.vm != nil {
		vm = o.vm.UID
	}
	if o.vmi != nil {
		vmi = o.vmi.UID
	}
	for _, cached := range []struct {
		object client.Object
		uid    types.UID
	}{{&v1.VirtualMachine{}, vm}, {&v1.VirtualMachineInstance{}, vmi}} {
		if current, err := r.isCurrent(ctx, key, cached.object, cached.uid); err != nil || !current {
			return err // the newer object's event brings the name back here
		}
	}
	return r.delete(ctx, o.hardware)
}

// isCurrent reports whether the API server has no other object of the name than the cached one, by its UID; an empty UID stands for no cached
// object. An object that the API server has no more is current too: only a newer one matters.
func (r *hardwareReconciler) isCurrent(ctx context.Context, key types.NamespacedName, object client.Object, uid types.UID) (bool, error) {
	err := r.live.Get(ctx, key, object)
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	return err == nil && object.GetUID() == uid, err
}

// delete deletes a GuestHardware as it was read: not one that was written or created anew since.
func (r *hardwareReconciler) delete(ctx context.Context, hardware *v1alpha1.GuestHardware) error {
	r.previous.remove(client.ObjectKeyFromObject(hardware))
	err := r.live.Delete(ctx, hardware, client.Preconditions{UID: &hardware.UID, ResourceVersion: &hardware.ResourceVersion})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting GuestHardware '%s': %w", hardware.Name, err)
	}
	return nil
}

// patchStatus writes a change of the status. It fails with a conflict if the GuestHardware has changed since it was read.
func (r *hardwareReconciler) patchStatus(ctx context.Context, hardware *v1alpha1.GuestHardware, change func(*v1alpha1.GuestHardwareStatus)) error {
	patched := hardware.DeepCopy()
	change(&patched.Status)
	err := r.live.Status().Patch(ctx, patched, client.MergeFromWithOptions(hardware, client.MergeFromWithOptimisticLock{}))
	return client.IgnoreNotFound(err)
}

// refuse sets condition Synchronized of a VMI to False and writes an event, once for each reason and message: the guest does not start.
func (r *hardwareReconciler) refuse(ctx context.Context, vmi *v1.VirtualMachineInstance, reason, message string) error {
	refusal := v1.VirtualMachineInstanceCondition{Type: v1.VirtualMachineInstanceSynchronized, Status: corev1.ConditionFalse,
		Reason: reason, Message: condition.Message(message), LastTransitionTime: metav1.NewTime(r.now())}
	refused := vmi.DeepCopy()
	refused.Status.Conditions = nil
	for _, c := range vmi.Status.Conditions {
		switch {
		case c.Type != refusal.Type:
			refused.Status.Conditions = append(refused.Status.Conditions, c)
		case c.Status == refusal.Status && c.Reason == refusal.Reason && c.Message == refusal.Message:
			return nil
		}
	}
	refused.Status.Conditions = append(refused.Status.Conditions, refusal)
	err := r.client.Status().Patch(ctx, refused, client.MergeFromWithOptions(vmi, client.MergeFromWithOptimisticLock{}))
	if err != nil {
		return client.IgnoreNotFound(err)
	}
	r.events.Eventf(vmi, nil, corev1.EventTypeWarning, reason, "Reconcile", "%s", condition.Note(message))
	return nil
}

// hardwareChange describes how the hardware of this boot differs from the last boot's; empty if it does not, or if either is missing or
// malformed. Mostly the VM's owner has made the change; with annotation kilnvm.io/hardware 'latest', an upgrade has.
func hardwareChange(before, after *v1alpha1.HardwareRecord) string {
	if before == nil || after == nil || record.Check(before) != nil || record.Check(after) != nil {
		return ""
	}
	var changes []string
	for _, change := range record.Compare(*before, *after) {
		changes = append(changes, change.Text)
	}
	if len(changes) == 0 {
		return ""
	}
	return "the hardware differs from that of the last boot: " + strings.Join(changes, "; ")
}
