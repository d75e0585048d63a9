package validate

import (
	"fmt"

	"github.com/kilnvm/kiln/pkg/config"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// Fields: domain.devices.interfaces[].acpiIndex, of all interfaces together.
// KubeVirt accepts one index for two interfaces. QEMU refuses the second: the index names the interface in the guest (eno1).

var acpiIndexRules = []guestRule{
	{acpiIndexes, []Rule{
		{Name: "networks/acpi-index-twice", KubeVirt: KubeVirtAdmits},
	}},
}

// acpiIndexes ignores 0, which is "not set": the field is no pointer.
func acpiIndexes(spec *v1.VirtualMachineInstanceSpec, _ config.Limits, path *field.Path) (errs field.ErrorList) {
	taken := map[int]int{}
	for i, nic := range spec.Domain.Devices.Interfaces {
		first, found := taken[nic.ACPIIndex]
		switch {
		case nic.ACPIIndex == 0:
		case found:
			errs = append(errs, field.Duplicate(nicPath(path, i, "acpiIndex"), nic.ACPIIndex).WithOrigin("networks/acpi-index-twice"))
			errs[len(errs)-1].Detail = fmt.Sprintf("already used by interfaces[%d]: choose another number", first)
		default:
			taken[nic.ACPIIndex] = i
		}
	}
	return errs
}
