package ownership

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	v1 "kubevirt.io/api/core/v1"
)

// Controls reports whether a VM is the controller of a VMI. metav1.IsControlledBy compares only the UID, which is not enough: admission lets only controllers
// write owner references of kind VirtualMachine, but anybody may write a reference of another kind with the VM's UID.
func Controls(vm *v1.VirtualMachine, vmi *v1.VirtualMachineInstance) bool {
	owner := metav1.GetControllerOf(vmi)
	if owner == nil {
		return false
	}
	group, err := schema.ParseGroupVersion(owner.APIVersion)
	return err == nil && group.Group == v1.GroupVersion.Group && owner.Kind == v1.VirtualMachineGroupVersionKind.Kind &&
		owner.Name == vm.Name && owner.UID == vm.UID
}

// ControlledByVM reports whether the controller of a VMI is of kind VirtualMachine.
func ControlledByVM(vmi *v1.VirtualMachineInstance) bool {
	owner := metav1.GetControllerOf(vmi)
	return owner != nil && owner.Kind == v1.VirtualMachineGroupVersionKind.Kind
}
