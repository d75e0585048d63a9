package admit

import (
	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/identity"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	v1 "kubevirt.io/api/core/v1"
)

// inherited are the annotations that a VMI takes from the metadata of its VM. All others come from the template.
var inherited = []string{v1alpha1.AnnotationPins, v1alpha1.AnnotationIdentity, v1alpha1.AnnotationHardware, v1alpha1.AnnotationArchitecture}

// Instance returns the sparse VMI of a VM: template, name, namespace, pins, identity. The caller adds owner, finalizers and the recorded frontend. The VM must
// have a template.
func Instance(vm *v1.VirtualMachine) *v1.VirtualMachineInstance {
	vmi := &v1.VirtualMachineInstance{TypeMeta: metav1.TypeMeta{APIVersion: v1.GroupVersion.String(), Kind: "VirtualMachineInstance"}}
	template := vm.Spec.Template.DeepCopy()
	vmi.Labels, vmi.Annotations = template.ObjectMeta.Labels, template.ObjectMeta.Annotations
	vmi.Name, vmi.Namespace = vm.Name, vm.Namespace
	vmi.Spec = template.Spec
	Inherit(vmi, vm)
	return vmi
}

// Inherit copies the annotations that a VMI takes from its VM. It changes the map of annotations, which no other object may share. VMIs that KubeVirt's
// controller makes do not have these annotations.
func Inherit(vmi *v1.VirtualMachineInstance, vm *v1.VirtualMachine) {
	for _, key := range inherited {
		annotateNonEmpty(vmi, key, vm.Annotations[key])
	}
	annotateNonEmpty(vmi, v1alpha1.AnnotationGeneration, identity.Generation(vm))
}

// annotateNonEmpty sets an annotation unless its key or value is empty. It changes the map of annotations, which no other object may share.
func annotateNonEmpty(vmi *v1.VirtualMachineInstance, key, value string) {
	if key != "" && value != "" {
		metav1.SetMetaDataAnnotation(&vmi.ObjectMeta, key, value)
	}
}
