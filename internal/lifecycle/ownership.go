package lifecycle

import (
	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/ownership"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	v1 "kubevirt.io/api/core/v1"
)

// Types of package ownership, which admission reads too.
type (
	// Guest identifies the guest that asks for the GuestHardware of its name.
	Guest = ownership.Guest
	// Ownership is how a GuestHardware relates to a guest of its name.
	Ownership = ownership.Ownership
)

// The relations of a GuestHardware to a guest.
const (
	Absent  = ownership.Absent
	Own     = ownership.Own
	Stale   = ownership.Stale
	Foreign = ownership.Foreign
)

// GuestOf returns the guest of a VM, whether its VMI exists or not.
func GuestOf(vm *v1.VirtualMachine) Guest { return ownership.GuestOf(vm) }

// ForeignMessage says why a guest does not boot with Foreign hardware, and what its owner can do.
func ForeignMessage(hardware *v1alpha1.GuestHardware) string {
	return ownership.ForeignMessage(hardware)
}

func assigned(hardware *v1alpha1.GuestHardware) bool { return ownership.Assigned(hardware) }

// controls reports whether a VM is the controller of a VMI. metav1.IsControlledBy compares the UID alone, which is not enough: admission lets
// only controllers write owner references of kind VirtualMachine, but anybody may write one of another kind with the VM's UID.
func controls(vm *v1.VirtualMachine, vmi *v1.VirtualMachineInstance) bool {
	owner := metav1.GetControllerOf(vmi)
	if owner == nil {
		return false
	}
	group, err := schema.ParseGroupVersion(owner.APIVersion)
	return err == nil && group.Group == v1.GroupVersion.Group && owner.Kind == v1.VirtualMachineGroupVersionKind.Kind &&
		owner.Name == vm.Name && owner.UID == vm.UID
}

// controlledByVM reports whether the controller of a VMI is of kind VirtualMachine.
func controlledByVM(vmi *v1.VirtualMachineInstance) bool {
	owner := metav1.GetControllerOf(vmi)
	return owner != nil && owner.Kind == v1.VirtualMachineGroupVersionKind.Kind
}
