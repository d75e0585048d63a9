// Package ownership determines which guest owns a GuestHardware. A GuestHardware may have been written for a deleted guest of the same name, or restored from
// a backup.
package ownership

import (
	"fmt"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"k8s.io/apimachinery/pkg/types"
	v1 "kubevirt.io/api/core/v1"
)

// Guest identifies a guest that may own the GuestHardware of its name.
type Guest struct {
	// VM is the UID of the VirtualMachine. It is empty for a VMI without a VM.
	VM types.UID
	// VMI is the UID of the VMI. It is empty before the VMI is created.
	VMI types.UID
	// Identity is the seed in the annotation kilnvm.io/identity. A VMI without a VM may have no seed.
	Identity string
}

// Ownership is the relation of a GuestHardware to a guest of its name.
type Ownership int

// The relations of a GuestHardware to a guest.
const (
	// Absent: the GuestHardware does not exist. The guest boots with new hardware.
	Absent Ownership = iota
	// Own: the guest boots with this hardware.
	Own
	// Stale: the hardware belonged to an earlier guest of this name, which is gone. Kiln replaces it.
	Stale
	// Foreign: the hardware was restored from a backup for a guest with another seed, which may still be restored. Kiln neither uses nor deletes it.
	Foreign
)

// GuestOf returns the guest of a VM. Its VMI need not exist.
func GuestOf(vm *v1.VirtualMachine) Guest {
	return Guest{VM: vm.UID, Identity: vm.Annotations[v1alpha1.AnnotationIdentity]}
}

// Ownership returns the relation of a GuestHardware, which may be nil, to the guest. UIDs in the status come first, because the owner of a VM may edit its
// seed after a boot. The seed finds the hardware of a VM that was restored from a backup, because backups keep neither statuses nor UIDs.
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
	case hardware.Spec.Identity == "": // hardware without a seed belongs to any guest of its name
		return Own
	}
	return Foreign
}

// Assigned reports whether the status names a VM or VMI of this cluster. A restored GuestHardware has no status.
func Assigned(hardware *v1alpha1.GuestHardware) bool {
	return hardware.Status.VirtualMachineUID != "" || hardware.Status.Guest != nil
}

// ForeignMessage returns why a guest does not boot with Foreign hardware, and what its owner can do. It contains the first 64 characters of the seed, because
// a tenant may have written a text of any length.
func ForeignMessage(hardware *v1alpha1.GuestHardware) string {
	return fmt.Sprintf("GuestHardware '%s' was restored for a guest of another identity: "+
		"set annotation '%s: %.64s' to boot with it, or have an administrator delete it", hardware.Name, v1alpha1.AnnotationIdentity, hardware.Spec.Identity)
}
