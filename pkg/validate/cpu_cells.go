package validate

import (
	"fmt"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/internal/vm"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// Fields: the annotation kilnvm.io/numa-cells, the number of NUMA nodes of the guest. Each node has whole sockets and an equal share of the
// memory, in whole huge pages, or in whole MiB, which is QEMU's granularity.

var cellRules = []metadataRule{
	{ownCells, []Rule{
		{Name: "cpu/cells-architecture", MendedBy: byInstancetype},
		{Name: "cpu/cells-mirrored", MendedBy: byInstancetype},
		{Name: "cpu/cells-number", MendedBy: byInstancetype},
		{Name: "cpu/sockets-of-cells", MendedBy: byCompletion | byInstancetype | byPreference},
		{Name: "memory/cells", MendedBy: byCompletion | byInstancetype},
	}},
}

func ownCells(vmi *v1.VirtualMachineInstance, _ config.Limits, path *field.Path) (errs field.ErrorList) {
	text := vmi.Annotations[v1alpha1.AnnotationNUMACells]
	if text == "" {
		return nil
	}
	at := path.Child("metadata", "annotations").Key(v1alpha1.AnnotationNUMACells)
	if vmi.Spec.Architecture == s390x {
		errs = append(errs, field.Forbidden(at, "architecture 's390x' has no NUMA nodes: remove the annotation").WithOrigin("cpu/cells-architecture"))
	}
	if vm.MirrorsNUMA(vmi.Spec.Domain.CPU) {
		errs = append(errs,
			field.Forbidden(at,
				"cannot be combined with cpu.numa.guestMappingPassthrough, which mirrors the host's NUMA nodes: remove one of them").WithOrigin("cpu/cells-mirrored"))
	}
	cells, ok := vm.Cells(vmi)
	if !ok {
		return append(errs, field.Invalid(at, text, fmt.Sprintf("must be a number from 1 to %d", vm.MostCells)).WithOrigin("cpu/cells-number"))
	}
	if sockets, _, _ := vm.Topology(vmi.Spec.Domain.CPU); uint(sockets)%cells != 0 {
		errs = append(errs,
			field.Invalid(at, text, fmt.Sprintf("%d sockets cannot be divided equally among %d NUMA nodes: choose a number of nodes that divides the sockets",
				sockets, cells)).WithOrigin("cpu/sockets-of-cells"))
	}
	return append(errs, memoryOfCells(vmi.Spec.Domain.Memory, cells, path.Child("spec", "domain", "memory", "guest"))...)
}

// memoryOfCells ignores an invalid page size, which rule memory/page-size refuses.
func memoryOfCells(memory *v1.Memory, cells uint, at *field.Path) field.ErrorList {
	if memory == nil || memory.Guest == nil || memory.Guest.Sign() <= 0 {
		return nil
	}
	page := int64(1 << 20)
	if memory.Hugepages != nil {
		if size, err := resource.ParseQuantity(memory.Hugepages.PageSize); err == nil {
			page = max(page, size.Value())
		}
	}
	total := memory.Guest.Value()
	if total/page >= int64(cells) && (page == 1<<20 || total%page == 0) {
		return nil
	}
	return field.ErrorList{field.Invalid(at, memory.Guest.String(),
		fmt.Sprintf("must be whole pages of %[2]d KiB, at least one for each of %[1]d NUMA nodes", cells, page>>10)).WithOrigin("memory/cells")}
}
