// Package ownership says whose a GuestHardware is. Objects of one name may belong to guests that were deleted, or that a backup brought.
package ownership

import (
	"fmt"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"k8s.io/apimachinery/pkg/types"
	v1 "kubevirt.io/api/core/v1"
)

// Guest identifies the guest that asks for the GuestHardware of its name.
type Guest struct {
	// VM is the UID of the VirtualMachine, empty for a VMI without one.
	VM types.UID
	// VMI is the UID of the VMI, empty before it is created.
	VMI types.UID
	// Identity is the seed in annotation kilnvm.io/identity. A VMI without a VM may have none.
	Identity string
}

// Ownership is how a GuestHardware relates to a guest of its name.
type Ownership int

// The relations of a GuestHardware to a guest.
const (
	// Absent: there is no GuestHardware. The guest boots with new hardware.
	Absent Ownership = iota
	// Own: the guest boots with this hardware.
	Own
	// Stale: the hardware is that of an earlier guest of this name, which is gone. Kiln replaces it.
	Stale
	// Foreign: a backup brought the hardware for a guest with another seed, which may still come. Kiln neither uses nor deletes it.
	Foreign
)

// GuestOf returns the guest of a VM, whether its VMI exists or not.
func GuestOf(vm *v1.VirtualMachine) Guest {
	return Guest{VM: vm.UID, Identity: vm.Annotations[v1alpha1.AnnotationIdentity]}
}

// Ownership returns how a GuestHardware, nil if there is none, relates to the guest. UIDs in the status come first: the owner of a VM may edit
// its seed after a boot. The seed finds the hardware of a VM that was restored from a backup, because backups keep neither statuses nor UIDs.
func (g Guest) Ownership(hardware *v1alpha1.GuestHardware) Ownership {
	if hardware == nil {
		return Absent
	}
	status := &hardware.Status
	switch {
	case g.VM != "" && status.VirtualMachineUID == g.VM:
		return Own
	case g.VM == "" && status.Guest != nil && status.Guest.UID == g.VMI: // a VMI that has outlived its VM keeps the hardware
		return Own
	case g.Identity != "" && hardware.Spec.Identity == g.Identity:
		return Own
	case Assigned(hardware) || hardware.Spec.Hardware == nil:
		return Stale
	case hardware.Spec.Identity == "": // without a seed it is for any guest of the name
		return Own
	}
	return Foreign
}

// Assigned reports whether a guest of this cluster was given the hardware. A restored GuestHardware has no status.
func Assigned(hardware *v1alpha1.GuestHardware) bool {
	return hardware.Status.VirtualMachineUID != "" || hardware.Status.Guest != nil
}

// ForeignMessage says why a guest does not boot with Foreign hardware, and what its owner can do. The seed is a tenant's text: the message has
// its first 64 characters.
func ForeignMessage(hardware *v1alpha1.GuestHardware) string {
	return fmt.Sprintf("GuestHardware '%s' was restored for a guest of another identity: "+
		"set annotation '%s: %.64s' to boot with it, or have an administrator delete it", hardware.Name, v1alpha1.AnnotationIdentity, hardware.Spec.Identity)
}
