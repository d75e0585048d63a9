package vm

import (
	"strconv"

	"github.com/kilnvm/kiln/api/v1alpha1"
	v1 "kubevirt.io/api/core/v1"
)

// MostCells is as many as a guest may ask for: each has a whole socket, and hosts have few.
const MostCells = 64

// Cells is how many NUMA cells a guest asks for; 0 where it does not. False says that what it wrote is no such number.
func Cells(vmi *v1.VirtualMachineInstance) (cells uint, ok bool) {
	text := vmi.Annotations[v1alpha1.AnnotationNUMACells]
	if text == "" {
		return 0, true
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > MostCells || strconv.Itoa(n) != text {
		return 0, false
	}
	return uint(n), true
}
