package virtcontroller

import (
	"cmp"
	"maps"
	"slices"

	"github.com/kilnvm/kiln/pkg/config"
	v1 "kubevirt.io/api/core/v1"
)

// machineAnnotations are the annotations that KubeVirt writes into the template of a VM: how it numbers the PCI devices, and for how many interfaces it keeps
// ports. KubeVirt: setDefaultPciTopologyVersion of the mutating webhook, syncPCITopologyAnnotationsToVM of virt-controller, v1.9.
var machineAnnotations = []string{v1.PciTopologyVersionAnnotation, v1.PciInterfaceSlotCountAnnotation}

// KeepTemplate returns the VM of an update with what KubeVirt wrote into the template and 'kubectl replace' with the original manifest drops: firmware UUID,
// serial number and machineAnnotations. Without them KubeVirt writes a UUID that is derived from the VM's name, and no serial number: the guest would start
// as another machine. Values of the update stay. Updates by controllers, also KubeVirt's, stay as they are. The given VM is not changed.
func (Completer) KeepTemplate(vm, old *v1.VirtualMachine, user string, limits config.Limits) *v1.VirtualMachine {
	if old == nil || vm.Spec.Template == nil || !managedByKubeVirt(old) || slices.Contains(limits.Controllers, user) {
		return vm
	}
	kept, template := *vm, *vm.Spec.Template
	kept.Spec.Template = &template
	template.Spec.Domain.Firmware = KeptFirmware(template.Spec.Domain.Firmware, old.Spec.Template.Spec.Domain.Firmware)
	template.ObjectMeta.Annotations = KeptAnnotations(template.ObjectMeta.Annotations, old.Spec.Template.ObjectMeta.Annotations)
	return &kept
}

// KeptFirmware returns the firmware of an update with the UUID and the serial number that it leaves out. It does not change its arguments.
func KeptFirmware(now, was *v1.Firmware) *v1.Firmware {
	if was == nil || was.UUID == "" && was.Serial == "" {
		return now
	}
	kept := *cmp.Or(now, &v1.Firmware{})
	kept.UUID, kept.Serial = cmp.Or(kept.UUID, was.UUID), cmp.Or(kept.Serial, was.Serial)
	return &kept
}

// KeptAnnotations returns the annotations of an updated template with the machineAnnotations that it leaves out. It does not change its
// arguments.
func KeptAnnotations(now, was map[string]string) map[string]string {
	now = maps.Clone(now)
	for _, key := range machineAnnotations {
		value, had := was[key]
		if _, has := now[key]; has || !had {
			continue
		}
		if now == nil {
			now = map[string]string{}
		}
		now[key] = value
	}
	return now
}

// managedByKubeVirt reports whether virt-controller manages a stored VM. It puts its finalizer on each VM. 'kubectl replace' drops the finalizer too, and the
// annotation of the template stays.
func managedByKubeVirt(vm *v1.VirtualMachine) bool {
	if vm.Spec.Template == nil {
		return false
	}
	_, numbered := vm.Spec.Template.ObjectMeta.Annotations[v1.PciTopologyVersionAnnotation]
	return numbered || slices.Contains(vm.Finalizers, v1.VirtualMachineControllerFinalizer)
}
