package vm

import (
	"strconv"

	"github.com/kilnvm/kiln/api/v1alpha1"
	v1 "kubevirt.io/api/core/v1"
)

// MaxNUMANodes is as many as a guest may ask for: each has a whole socket, and hosts have few.
const MaxNUMANodes = 64

// NUMANodes is how many NUMA nodes a guest asks for; 0 where it does not. False says that what it wrote is no such number.
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
