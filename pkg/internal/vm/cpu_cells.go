package vm

import (
	"strconv"

	v1 "kubevirt.io/api/core/v1"
)

// AnnotationCells is the number of NUMA cells that a guest is to have of its own. The API has a field for cells that mirror the
// host's alone; an annotation may also come from the template of a VM, or from its size.
const AnnotationCells = "kilnvm.io/numa-cells"

// MostCells is as many as a guest may ask for: each has a whole socket, and hosts have few.
const MostCells = 64

// Cells is how many NUMA cells a guest asks for; 0 where it does not. False says that what it wrote is no such number.
func Cells(vmi *v1.VirtualMachineInstance) (cells uint, ok bool) {
	text := vmi.Annotations[AnnotationCells]
	if text == "" {
		return 0, true
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > MostCells || strconv.Itoa(n) != text {
		return 0, false
	}
	return uint(n), true
}
