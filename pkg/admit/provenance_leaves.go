package admit

import (
	"strings"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/internal/leaves"
	v1 "kubevirt.io/api/core/v1"
)

// guestLeaves are those of the annotations and the spec of a guest.
func guestLeaves(vmi *v1.VirtualMachineInstance) []leaves.Leaf {
	return leaves.Append(leaves.Append(nil, "metadata.annotations", hardwareAnnotations(vmi)), "spec", vmi.Spec)
}

// hardwareAnnotations leave out those that Kiln itself reads, which are no hardware.
func hardwareAnnotations(vmi *v1.VirtualMachineInstance) map[string]string {
	annotations := map[string]string{}
	for key, value := range vmi.Annotations {
		// The generation of its VM is the controller's note on the guest, like Kiln's own: it is no part of what boots.
		if !strings.HasPrefix(key, v1alpha1.Prefix) && key != v1.VirtualMachineGenerationAnnotation {
			annotations[key] = value
		}
	}
	return annotations
}
