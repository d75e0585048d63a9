package validate

import (
	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/address"
	"github.com/kilnvm/kiln/pkg/config"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// Fields that Kiln's launcher serves and KubeVirt does not, where KubeVirt runs guests (limits.KubeVirtGuests): annotations kilnvm.io/numa-cells,
// kilnvm.io/generation and kilnvm.io/rollout, and PCI addresses on buses other than root ports. A guest with other hardware than its owner asked for is
// refused; where the hardware is the same, a warning says that the field has no effect.
// KubeVirt ignores the annotations, and its converter writes an address into the domain without a bridge (pkg/virt-launcher/virtwrap/converter).

var kubeVirtGuestRules = []metadataRule{
	{kubeVirtNUMANodes, []Rule{{Name: "kubevirt/numa-nodes", KubeVirt: KubeVirtAdmits, MendedBy: byInstancetype}}},
	{kubeVirtAddresses, []Rule{{Name: "kubevirt/pci-address", KubeVirt: KubeVirtAdmits, MendedBy: byPreference}}},
}

// kubeVirtNUMANodes refuses NUMA nodes that the guest would not have.
func kubeVirtNUMANodes(vmi *v1.VirtualMachineInstance, limits config.Limits, path *field.Path) field.ErrorList {
	if text := vmi.Annotations[v1alpha1.AnnotationNUMACells]; !limits.KubeVirtGuests || text == "" || text == "1" {
		return nil // without the annotation a guest has one node, too
	}
	return field.ErrorList{field.Forbidden(path.Child("metadata", "annotations").Key(v1alpha1.AnnotationNUMACells),
		"KubeVirt runs the guest, and would give it one NUMA node: remove the annotation, or use cpu.numa.guestMappingPassthrough").
		WithOrigin("kubevirt/numa-nodes")}
}

// kubeVirtAddresses refuses a slot on a bus behind a root port, which has slot 00 alone: Kiln makes such a bus a bridge. libvirt refuses the domain.
func kubeVirtAddresses(vmi *v1.VirtualMachineInstance, limits config.Limits, path *field.Path) (errs field.ErrorList) {
	if !limits.KubeVirtGuests {
		return nil
	}
	spec := path.Child("spec")
	judge := func(pin string, at *field.Path) {
		if pci, err := address.ParsePCI(pin); err == nil && pci.Bus > 0 && pci.Slot > 0 {
			errs = append(errs, field.Invalid(at, pin,
				"KubeVirt runs the guest, and makes no PCI bridge: use slot '00' of this bus, or a slot of bus '00'").WithOrigin("kubevirt/pci-address"))
		}
	}
	for i := range vmi.Spec.Domain.Devices.Disks {
		if disk := vmi.Spec.Domain.Devices.Disks[i].Disk; disk != nil {
			judge(disk.PciAddress, spec.Child("domain", "devices", "disks").Index(i).Child("disk", "pciAddress"))
		}
	}
	for i := range vmi.Spec.Domain.Devices.Interfaces {
		judge(vmi.Spec.Domain.Devices.Interfaces[i].PciAddress, nicPath(spec, i, "pciAddress"))
	}
	return errs
}

// kubeVirtIgnores returns a warning for each annotation of a VM that has no effect where KubeVirt runs its guest. The guest has no device for a generation,
// so that nothing it sees is another.
func kubeVirtIgnores(vm *v1.VirtualMachine) (warnings []Warning) {
	for _, ignored := range []struct{ key, why string }{
		{v1alpha1.AnnotationGeneration, "KubeVirt gives guests no VM Generation ID"},
		{v1alpha1.AnnotationRollout, "KubeVirt runs the guest; restart it with virtctl"},
	} {
		if vm.Annotations[ignored.key] != "" {
			warnings = append(warnings, ofAnnotation(ignored.key, "annotation '%s' has no effect: %s", ignored.key, ignored.why))
		}
	}
	return warnings
}
