package admit

import (
	"strings"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/internal/leaves"
	v1 "kubevirt.io/api/core/v1"
)

// guestLeaves returns the leaves of the annotations and the spec of a VMI.
func guestLeaves(vmi *v1.VirtualMachineInstance) []leaves.Leaf {
	return leaves.Append(leaves.Append(nil, "metadata.annotations", hardwareAnnotations(vmi)), "spec", vmi.Spec)
}

// labelLeaves returns the labels of a VMI.
func labelLeaves(vmi *v1.VirtualMachineInstance) []leaves.Leaf {
	return leaves.Append(nil, "metadata.labels", vmi.Labels)
}

// hardwareAnnotations returns the annotations of a VMI that can change its hardware. Kiln's own annotations do not.
func hardwareAnnotations(vmi *v1.VirtualMachineInstance) map[string]string {
	annotations := map[string]string{}
	for key, value := range vmi.Annotations {
		// KubeVirt's controller notes the generation of the VM in this annotation, which is no part of what boots.
		if !strings.HasPrefix(key, v1alpha1.Prefix) && key != v1.VirtualMachineGenerationAnnotation {
			annotations[key] = value
		}
	}
	return annotations
}
