// Package datavolumes makes the DataVolumes of spec.dataVolumeTemplates of a VM, asks whether the VM may clone their sources, and judges DataVolumes and claims
// that exist already. Containerized Data Importer (CDI) fills them.
package datavolumes

import (
	"cmp"
	"fmt"
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	v1 "kubevirt.io/api/core/v1"
	cdi "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
)

// New returns the DataVolume of a template. Of the template's metadata it takes name, labels and annotations. It does not set KubeVirt's annotation
// cdi.kubevirt.io/allowClaimAdoption: CDI would take a claim of this name that exists, and the claim would be deleted with the VM.
func New(vm *v1.VirtualMachine, template *v1.DataVolumeTemplateSpec) *cdi.DataVolume {
	labels := maps.Clone(template.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	labels[v1.CreatedByLabel] = string(vm.UID)
	volume := &cdi.DataVolume{
		ObjectMeta: metav1.ObjectMeta{Name: template.Name, Namespace: vm.Namespace, Labels: labels, Annotations: maps.Clone(template.Annotations),
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(vm, v1.VirtualMachineGroupVersionKind)}},
		Spec: *template.Spec.DeepCopy(),
	}
	if vm.Spec.Template != nil {
		volume.Spec.PriorityClassName = cmp.Or(volume.Spec.PriorityClassName, vm.Spec.Template.Spec.PriorityClassName)
	}
	return volume
}

// Account returns the name of the ServiceAccount that a VM runs as, in the namespace of the VM. CDI may copy for the VM what this account may copy. The order
// is KubeVirt's.
func Account(vm *v1.VirtualMachine) string {
	const fallback = "default"
	if vm.Spec.Template == nil {
		return fallback
	}
	for _, volume := range vm.Spec.Template.Spec.Volumes {
		if volume.ServiceAccount != nil {
			return cmp.Or(vm.Spec.Template.Spec.ServiceAccountName, volume.ServiceAccount.ServiceAccountName, fallback)
		}
	}
	return cmp.Or(vm.Spec.Template.Spec.ServiceAccountName, fallback)
}

// quoted returns the name of an object for messages, bounded because a tenant wrote it.
func quoted(kind, namespace, name string) string {
	if namespace == "" {
		return fmt.Sprintf("%s '%.253s'", kind, name)
	}
	return fmt.Sprintf("%s '%.63s/%.253s'", kind, namespace, name)
}
