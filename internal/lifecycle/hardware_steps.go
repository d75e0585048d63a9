package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/condition"
	"github.com/kilnvm/kiln/internal/objects"
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

// assignHardware writes VM, VMI, node and FrontendProfile into the status of the GuestHardware, which it creates if necessary. Then the launcher of that node
// may write spec.hardware and start the guest.
func (r *hardwareReconciler) assignHardware(ctx context.Context, o guestObjects) error {
	key := client.ObjectKeyFromObject(o.vmi)
	guest, found := o.hardwareGuest()
	if !found {
		if o.vm == nil || controlledByVM(o.vmi) {
			return nil // the cache does not have the VM yet, or the garbage collector deletes the VMI of a deleted VM
		}
		return r.refuseVMI(ctx, o.vmi, v1alpha1.ReasonNameTaken,
			fmt.Sprintf("the hardware of this name belongs to VirtualMachine '%s': delete this virtual machine instance", o.vm.Name))
	}
	if guest.VM == "" {
		if current, err := r.isCurrent(ctx, key, &v1.VirtualMachine{}, ""); err != nil || !current {
			return err
		}
	}
	frontend, err := r.frontend(ctx, o.vmi)
	if err != nil { // retried: a backup tool may restore the revision
		return errors.Join(err, r.refuseVMI(ctx, o.vmi, v1alpha1.ReasonFailedPin, err.Error()))
	}
	switch guest.Ownership(o.hardware) {
	case ownership.Foreign:
		return r.refuseVMI(ctx, o.vmi, v1alpha1.ReasonHardwareForeign, ownership.ForeignMessage(o.hardware))
	case ownership.Stale:
		if err := r.deleteHardware(ctx, o.hardware); err != nil {
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
	r.lastBoots.add(key, bootAssignment{o.vmi.UID, o.hardware.Spec.Hardware})
	return r.patchStatus(ctx, o.hardware, func(status *v1alpha1.GuestHardwareStatus) {
		status.VirtualMachineUID, status.Guest = guest.VM, &v1alpha1.HardwareUser{
			UID: o.vmi.UID, NodeName: o.vmi.Status.NodeName, Frontend: frontend.DeepCopy(), // the response is decoded into it
		}
	})
}

// countBoot counts a boot in the status, and records an event if the boot changed the hardware.
func (r *hardwareReconciler) countBoot(ctx context.Context, o guestObjects) error {
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
	previous := r.lastBoots.remove(client.ObjectKeyFromObject(o.vmi))
	if note := describeBootChange(previous.hardware, booted); previous.vmi == o.vmi.UID && note != "" {
		var about runtime.Object = o.vmi
		if o.vm != nil {
			about = o.vm
		}
		r.events.Eventf(about, nil, corev1.EventTypeNormal, v1alpha1.ReasonHardwareChanged, "Reconcile", "%s", condition.Note(note))
	}
	return nil
}

// updateIdentity copies the VM's identity seed into the record.
func (r *hardwareReconciler) updateIdentity(ctx context.Context, o guestObjects) error {
	updated := o.hardware.DeepCopy()
	updated.Spec.Identity = o.vm.Annotations[v1alpha1.AnnotationIdentity]
	return client.IgnoreNotFound(objects.Patch(ctx, r.live, updated, o.hardware))
}

// deleteOrphanedHardware deletes a GuestHardware whose guest is gone. It reads VM and VMI from the API server first: with an outdated cache it would delete
// the hardware of a VM or VMI that was just created.
func (r *hardwareReconciler) deleteOrphanedHardware(ctx context.Context, o guestObjects) error {
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
			return err // the newer object's event reconciles the name again
		}
	}
	return r.deleteHardware(ctx, o.hardware)
}

// isCurrent reports whether the API server has no other object of the name than the cached one, by UID; an empty UID means that the cache has none. A cached
// object that was deleted since also counts as current: only a newer object matters.
func (r *hardwareReconciler) isCurrent(ctx context.Context, key types.NamespacedName, object client.Object, uid types.UID) (bool, error) {
	err := r.live.Get(ctx, key, object)
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	return err == nil && object.GetUID() == uid, err
}

// deleteHardware deletes a GuestHardware if it was neither changed nor created anew since it was read.
func (r *hardwareReconciler) deleteHardware(ctx context.Context, hardware *v1alpha1.GuestHardware) error {
	r.lastBoots.remove(client.ObjectKeyFromObject(hardware))
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
	err := objects.PatchStatus(ctx, r.live, patched, hardware)
	return client.IgnoreNotFound(err)
}

// refuseVMI sets condition Synchronized of a VMI to False, because its guest cannot start, and records an event. It does both only once for each reason and
// message.
func (r *hardwareReconciler) refuseVMI(ctx context.Context, vmi *v1.VirtualMachineInstance, reason, message string) error {
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
	err := objects.PatchStatus(ctx, r.client, refused, vmi)
	if err != nil {
		return client.IgnoreNotFound(err)
	}
	r.events.Eventf(vmi, nil, corev1.EventTypeWarning, reason, "Reconcile", "%s", condition.Note(message))
	return nil
}

// describeBootChange says how the hardware of this boot differs from that of the last boot; empty if it does not, or if either record is missing or malformed.
// Usually the VM's owner has edited the VM; with annotation kilnvm.io/hardware 'latest', an upgrade of Kiln may have changed it.
func describeBootChange(before, after *v1alpha1.HardwareRecord) string {
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
