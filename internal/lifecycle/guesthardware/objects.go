package guesthardware

import (
	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/ownership"
	"github.com/kilnvm/kiln/pkg/record"
	"github.com/kilnvm/kiln/pkg/render"
	"k8s.io/apimachinery/pkg/runtime"
	v1 "kubevirt.io/api/core/v1"
)

// guestObjects are the VM, VMI and GuestHardware of one name; nil for one that does not exist.
type guestObjects struct {
	vm       *v1.VirtualMachine
	vmi      *v1.VirtualMachineInstance
	hardware *v1alpha1.GuestHardware
}

// hardwareGuest returns the guest that the GuestHardware belongs to: the guest of the VM, even before its VMI exists, or of a VMI without a VM. It returns
// false if both exist and the VM does not control the VMI: then neither may boot with the GuestHardware.
func (o guestObjects) hardwareGuest() (ownership.Guest, bool) {
	switch {
	case o.vm != nil && (o.vmi == nil || ownership.Controls(o.vm, o.vmi)):
		guest := ownership.GuestOf(o.vm)
		if o.vmi != nil {
			guest.VMI = o.vmi.UID
		}
		return guest, true
	case o.vm == nil && o.vmi != nil && !ownership.ControlledByVM(o.vmi):
		return ownership.Guest{VMI: o.vmi.UID, Identity: o.vmi.Annotations[v1alpha1.AnnotationIdentity]}, true
	}
	return ownership.Guest{}, false
}

// launcherMayStart reports whether a launcher has claimed the VMI and may start its guest.
func (o guestObjects) launcherMayStart() bool {
	return o.vmi.Status.NodeName != "" && !o.vmi.IsFinal() && o.vmi.DeletionTimestamp == nil
}

// isAssigned reports whether the status of the GuestHardware names this VM, this VMI and its node. The launcher compares them before it starts the guest.
func (o guestObjects) isAssigned() bool {
	guest, _ := o.hardwareGuest()
	return o.assignedToVMI() && o.hardware.Status.Guest.NodeName == o.vmi.Status.NodeName && o.hardware.Status.VirtualMachineUID == guest.VM
}

// assignedToVMI reports whether the status of the GuestHardware names this VMI.
func (o guestObjects) assignedToVMI() bool {
	return o.hardware != nil && o.vmi != nil && o.hardware.Status.Guest != nil && o.hardware.Status.Guest.UID == o.vmi.UID
}

// bootUncounted reports whether the guest has run and status.lastBoot names another VMI.
func (o guestObjects) bootUncounted() bool {
	return o.assignedToVMI() && hasRun(o.vmi) && (o.hardware.Status.LastBoot == nil || o.hardware.Status.LastBoot.UID != o.vmi.UID)
}

// hasRun reports whether a VMI is or was in phase Running. A guest may start and end between two reconciles.
func hasRun(vmi *v1.VirtualMachineInstance) bool {
	for _, at := range vmi.Status.PhaseTransitionTimestamps {
		if at.Phase == v1.Running {
			return true
		}
	}
	return vmi.Status.Phase == v1.Running
}

// verifyCPU compares the recorded CPU with the CPU that libvirt runs, as render.VerifyCPU does. It returns nothing while the guest does not run.
func (o guestObjects) verifyCPU() (verified *record.Record, difference string) {
	if !o.assignedToVMI() || o.hardware.Status.Running == nil || o.hardware.Status.Running.UID != o.vmi.UID {
		return nil, ""
	}
	return render.VerifyCPU(o.hardware.Spec.Hardware, o.hardware.Status.Running.CPU)
}

// guestObject returns the object that events about the guest belong to: the VM, else the VMI.
func (o guestObjects) guestObject() runtime.Object {
	if o.vm != nil {
		return o.vm
	}
	return o.vmi
}

// identityEdited reports whether the VM's owner has edited the identity seed since the hardware was recorded. The record follows the edit, because a backup of
// both is restored by the seed.
func (o guestObjects) identityEdited() bool {
	return o.hardware != nil && o.vm != nil && o.hardware.Status.VirtualMachineUID == o.vm.UID &&
		o.vm.Annotations[v1alpha1.AnnotationIdentity] != "" && o.hardware.Spec.Identity != o.vm.Annotations[v1alpha1.AnnotationIdentity]
}

// inUse reports whether the GuestHardware must stay: for its guest or, if it was restored and is not yet assigned, for a guest that may be restored later.
func (o guestObjects) inUse() bool {
	if o.assignedToVMI() || !ownership.Assigned(o.hardware) && o.hardware.Spec.Hardware != nil {
		return true
	}
	if guest, found := o.hardwareGuest(); found {
		return guest.Ownership(o.hardware) == ownership.Own
	}
	return o.vm != nil && ownership.GuestOf(o.vm).Ownership(o.hardware) == ownership.Own
}
