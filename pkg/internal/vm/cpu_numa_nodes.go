package vm

import (
	"strconv"

	"github.com/kilnvm/kiln/api/v1alpha1"
	v1 "kubevirt.io/api/core/v1"
)

// MaxNUMANodes is the highest value of the annotation kilnvm.io/numa-cells. QEMU's limit is 128; each node has at least one whole socket.
const MaxNUMANodes = 64

// NUMANodes returns the number of NUMA nodes in the annotation kilnvm.io/numa-cells; 0 without the annotation. It reports false for a value that is not a
// decimal number from 1 to MaxNUMANodes. Each number has one spelling: '+2' and '02' are not accepted.
func NUMANodes(vmi *v1.VirtualMachineInstance) (nodes uint, ok bool) {
	text := vmi.Annotations[v1alpha1.AnnotationNUMACells]
	if text == "" {
		return 0, true
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > MaxNUMANodes || strconv.Itoa(n) != text {
		return 0, false
	}
	return uint(n), true
}
