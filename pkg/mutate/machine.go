package mutate

import (
	"strings"

	"github.com/kilnvm/kiln/pkg/config"
	v1 "kubevirt.io/api/core/v1"
)

// Fields: architecture, domain.machine.type, annotation kubevirt.io/pci-topology-version.
// A guest that names neither architecture nor machine gets the cluster's. The machine type may be an alias (q35): which
// version it stands for is resolved by the host of the first start and frozen.

func architecture(vmi *v1.VirtualMachineInstance, d config.Defaults) {
	if vmi.Spec.Architecture == "" {
		vmi.Spec.Architecture = d.Architecture
	}
}

func machine(vmi *v1.VirtualMachineInstance, d config.Defaults) {
	if vmi.Spec.Domain.Machine == nil {
		vmi.Spec.Domain.Machine = &v1.Machine{}
	}
	if vmi.Spec.Domain.Machine.Type == "" {
		vmi.Spec.Domain.Machine.Type = d.Machines[vmi.Spec.Architecture]
	}
}

// pciTopology marks PCIe guests as KubeVirt does, so that one that moves there keeps its scheme. Kiln itself reads the
// frozen addresses.
func pciTopology(vmi *v1.VirtualMachineInstance, _ config.Defaults) {
	kind := vmi.Spec.Domain.Machine.Type
	pcie := strings.Contains(kind, "q35") || strings.HasPrefix(kind, "virt")
	if pcie && (vmi.Spec.Architecture == "amd64" || vmi.Spec.Architecture == "arm64") {
		annotate(vmi, v1.PciTopologyVersionAnnotation, v1.PciTopologyVersionV3)
	}
}

// annotate sets an annotation that is absent.
func annotate(vmi *v1.VirtualMachineInstance, key, value string) {
	if _, set := vmi.Annotations[key]; set {
		return
	}
	if vmi.Annotations == nil {
		vmi.Annotations = map[string]string{}
	}
	vmi.Annotations[key] = value
}
