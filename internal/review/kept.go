package review

import (
	"cmp"
	"maps"
	"slices"

	v1 "kubevirt.io/api/core/v1"
)

// machineAnnotations are the annotations that KubeVirt writes into the template of a VM: how it numbers the PCI devices, and for how many interfaces it keeps
// ports. KubeVirt: setDefaultPciTopologyVersion of the mutating webhook, syncPCITopologyAnnotationsToVM of virt-controller, v1.9.
var machineAnnotations = []string{v1.PciTopologyVersionAnnotation, v1.PciInterfaceSlotCountAnnotation}

// kept returns a VM with what KubeVirt wrote into its template and 'kubectl replace' with the original manifest drops: firmware UUID, serial number and
// machineAnnotations. Without it KubeVirt writes a UUID that is derived from the VM's name, and no serial number: the guest starts as another machine. What the
// update gives stays. Controllers, KubeVirt's among them, write what they mean. The VM itself is not changed.
func (r Reviewer) kept(vm, old *v1.VirtualMachine, asker Asker) *v1.VirtualMachine {
	if old == nil || vm.Spec.Template == nil || !ranByKubeVirt(old) || slices.Contains(r.Configuration().Limits.Controllers, asker.Name) {
		return vm
	}
	kept, template := *vm, *vm.Spec.Template
	kept.Spec.Template = &template
	if was := old.Spec.Template.Spec.Domain.Firmware; was != nil && (was.UUID != "" || was.Serial != "") {
		firmware := *cmp.Or(template.Spec.Domain.Firmware, &v1.Firmware{})
		firmware.UUID, firmware.Serial = cmp.Or(firmware.UUID, was.UUID), cmp.Or(firmware.Serial, was.Serial)
		template.Spec.Domain.Firmware = &firmware
	}
	template.ObjectMeta.Annotations = maps.Clone(template.ObjectMeta.Annotations)
	for _, key := range machineAnnotations {
		value, had := old.Spec.Template.ObjectMeta.Annotations[key]
		if _, has := template.ObjectMeta.Annotations[key]; has || !had {
			continue
		}
		if template.ObjectMeta.Annotations == nil {
			template.ObjectMeta.Annotations = map[string]string{}
		}
		template.ObjectMeta.Annotations[key] = value
	}
	return &kept
}

// ranByKubeVirt reports whether KubeVirt's controller manages a stored VM: its finalizer is on each VM that it has seen, until 'kubectl replace' drops that,
// too. The annotation of the template stays.
func ranByKubeVirt(vm *v1.VirtualMachine) bool {
	if vm.Spec.Template == nil {
		return false
	}
	_, numbered := vm.Spec.Template.ObjectMeta.Annotations[v1.PciTopologyVersionAnnotation]
	return numbered || slices.Contains(vm.Finalizers, v1.VirtualMachineControllerFinalizer)
}
