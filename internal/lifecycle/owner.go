package lifecycle

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	v1 "kubevirt.io/api/core/v1"
)

// owns tells whether a guest is the VM's. Admission lets controllers alone write such an owner reference; one of another kind that bears
// the VM's UID is anybody's to write, and means nothing.
func owns(vm *v1.VirtualMachine, vmi *v1.VirtualMachineInstance) bool {
	owner := metav1.GetControllerOf(vmi)
	if owner == nil {
		return false
	}
	group, err := schema.ParseGroupVersion(owner.APIVersion)
	return err == nil && group.Group == v1.GroupVersion.Group && owner.Kind == v1.VirtualMachineGroupVersionKind.Kind &&
		owner.Name == vm.Name && owner.UID == vm.UID
}
