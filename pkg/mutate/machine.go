package mutate

import (
	"strings"

	"github.com/kilnvm/kiln/pkg/config"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	v1 "kubevirt.io/api/core/v1"
)

// Fields: architecture, domain.machine.type, annotation kubevirt.io/pci-topology-version.

// defaultArchitecture is setDefaultArchitecture: the cluster's defaultArchitecture, if the VMI names no architecture.
func defaultArchitecture(vmi *v1.VirtualMachineInstance, d config.Defaults) {
	if vmi.Spec.Architecture == "" {
		vmi.Spec.Architecture = d.Architecture
	}
}

// machineType is setDefaultMachineType: the cluster's machineType of the architecture. It may be an alias such as q35: the host of the first
// start resolves it, and the record keeps the version.
func machineType(vmi *v1.VirtualMachineInstance, d config.Defaults) {
	if vmi.Spec.Domain.Machine == nil {
		vmi.Spec.Domain.Machine = &v1.Machine{}
	}
	if vmi.Spec.Domain.Machine.Type == "" {
		vmi.Spec.Domain.Machine.Type = d.Machines[vmi.Spec.Architecture]
	}
}

// pciTopology is setDefaultPciTopologyVersion, for the machines of KubeVirt's SupportsPCIeHotplug: q35 on amd64 and virt on arm64. Only KubeVirt reads the
// annotation: a VMI that moves to KubeVirt keeps its layout. Kiln reads the addresses of the hardware record.
func pciTopology(vmi *v1.VirtualMachineInstance, _ config.Defaults) {
	kind := vmi.Spec.Domain.Machine.Type
	pcie := strings.Contains(kind, "q35") || strings.HasPrefix(kind, "virt")
	if pcie && (vmi.Spec.Architecture == "amd64" || vmi.Spec.Architecture == "arm64") {
		annotateUnset(vmi, v1.PciTopologyVersionAnnotation, v1.PciTopologyVersionV3)
	}
}

// annotateUnset sets an annotation that is absent.
func annotateUnset(vmi *v1.VirtualMachineInstance, key, value string) {
	if _, set := vmi.Annotations[key]; !set {
		metav1.SetMetaDataAnnotation(&vmi.ObjectMeta, key, value)
	}
}
