package lifecycle

import (
	"fmt"

	"github.com/kilnvm/kiln/api/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	v1 "kubevirt.io/api/core/v1"
)

// Claim is what a guest can show for the GuestHardware of its name.
type Claim struct {
	// VM is the UID of the guest's VM, empty for a VMI without one.
	VM types.UID
	// VMI is the UID of the guest, empty before it is created.
	VMI types.UID
	// Identity is the seed. A VMI without VM may have none.
	Identity string
}

// Title is what a claim on a GuestHardware is worth.
type Title int

// The titles to a GuestHardware.
const (
	// Absent: there is none. The guest boots with new hardware.
	Absent Title = iota
	// Own: the guest boots with this hardware.
	Own
	// Stale: the hardware is that of another guest of this name, which is gone. Kiln replaces it.
	Stale
	// Foreign: the hardware was restored for a guest with another seed, which may still come. Kiln neither uses nor removes it.
	Foreign
)

// Title judges the claim. A UID proves what a seed does not: an owner may edit the seed of a VM whose hardware is recorded. The
// seed alone finds the hardware of a VM that was restored, since its UID is a new one.
func (c Claim) Title(hardware *v1alpha1.GuestHardware) Title {
	if hardware == nil {
		return Absent
	}
	status := &hardware.Status
	switch {
	case c.VM != "" && status.VirtualMachineUID == c.VM:
		return Own
	case c.VM == "" && status.Guest != nil && status.Guest.UID == c.VMI: // also of a guest that has outlived its VM
		return Own
	case c.Identity != "" && hardware.Spec.Identity == c.Identity:
		return Own
	case taken(hardware) || hardware.Spec.Hardware == nil:
		return Stale
	case hardware.Spec.Identity == "":
		return Own
	}
	return Foreign
}

// ClaimOf is the claim of a VM's guest, whether it exists or not.
func ClaimOf(vm *v1.VirtualMachine) Claim {
	return Claim{VM: vm.UID, Identity: vm.Annotations[v1alpha1.AnnotationIdentity]}
}

// taken reports whether a guest of this cluster has started with the hardware. What a backup brings back has no status.
func taken(hardware *v1alpha1.GuestHardware) bool {
	return hardware.Status.VirtualMachineUID != "" || hardware.Status.Guest != nil
}

// Foreigner says why a guest does not boot with hardware to which its title is Foreign, and what its owner can do.
func Foreigner(hardware *v1alpha1.GuestHardware) string {
	return fmt.Sprintf("GuestHardware '%s' was restored for a guest of another identity: "+
		"set annotation '%s: %.64s' to boot with it, or have an administrator delete it", hardware.Name, v1alpha1.AnnotationIdentity, hardware.Spec.Identity)
}

// ofVM reports whether a VMI names a VirtualMachine as its controller.
func ofVM(vmi *v1.VirtualMachineInstance) bool {
	owner := metav1.GetControllerOf(vmi)
	return owner != nil && owner.Kind == v1.VirtualMachineGroupVersionKind.Kind
}
