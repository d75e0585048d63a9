package validate

import (
	"fmt"
	"math/bits"

	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/hardware"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// Fields: domain.devices.disks[].blockSize.
// Block sizes are powers of two that QEMU accepts (512 bytes to 2 MiB); physical is at least logical; some buses have one logical size.
// KubeVirt's validateBlockSize stops at the first mistake of a disk; here each is reported, at its own field.

var blockSizeRules = []guestRule{
	{blockSizes, []Rule{
		{Name: "disks/block-size-both", MendedBy: byPreference},
		{Name: "disks/block-size-order", MendedBy: byPreference},
		{Name: "disks/block-size-sata", KubeVirt: KubeVirtRefusesVMI, MendedBy: byPreference},
		{Name: "disks/discard-granularity"},
		{Name: "disks/block-size-small", MendedBy: byPreference},
		{Name: "disks/block-size-large", MendedBy: byPreference},
		{Name: "disks/block-size-power", MendedBy: byPreference},
	}},
}

// The limits of validateCustomBlockSize.
const (
	minBlock = 512
	maxBlock = 2 << 20
)

func blockSizes(spec *v1.VirtualMachineInstanceSpec, _ config.Limits, path *field.Path) field.ErrorList {
	return blockSizeForms(spec.Domain.Devices.Disks, disksOf(path))
}

func blockSizeForms(list []v1.Disk, places places) (errs field.ErrorList) {
	for i := range list {
		size := list[i].BlockSize
		if size == nil || size.Custom == nil {
			continue
		}
		at := places(i, "blockSize")
		if isEnabled(size.MatchVolume) {
			errs = append(errs, field.Forbidden(at.Child("matchVolume"), "cannot be combined with custom: remove one of them").WithOrigin("disks/block-size-both"))
			continue
		}
		errs = append(errs, customBlockSize(&list[i], at.Child("custom"))...)
	}
	return errs
}

func customBlockSize(disk *v1.Disk, path *field.Path) (errs field.ErrorList) {
	size := disk.BlockSize.Custom
	errs = append(blockSize(path.Child("logical"), size.Logical), blockSize(path.Child("physical"), size.Physical)...)
	bus, _ := bus(disk)
	only := hardware.Bus(bus).BlockSize
	switch {
	case size.Logical > size.Physical:
		errs = append(errs, field.Invalid(path.Child("logical"), size.Logical,
			fmt.Sprintf("must not be greater than physical (%d)", size.Physical)).WithOrigin("disks/block-size-order"))
	case only != 0 && size.Logical != only:
		errs = append(errs, field.Invalid(path.Child("logical"), size.Logical, fmt.Sprintf("must be %d on bus '%s'", only, bus)).WithOrigin("disks/block-size-sata"))
	}
	// A logical size of 0 was refused as too small, and nothing can be divided by it.
	if discard := size.DiscardGranularity; discard != nil && size.Logical != 0 && *discard%size.Logical != 0 {
		errs = append(errs, field.Invalid(path.Child("discardGranularity"), *discard,
			fmt.Sprintf("must be a multiple of logical (%d)", size.Logical)).WithOrigin("disks/discard-granularity"))
	}
	return errs
}

// blockSize judges logical or physical. Only one of the three can be wrong, so that a size of 0 is not also reported as no power of 2.
func blockSize(at *field.Path, size uint) field.ErrorList {
	switch {
	case size < minBlock:
		return field.ErrorList{field.Invalid(at, size, fmt.Sprintf("must be at least %d bytes", minBlock)).WithOrigin("disks/block-size-small")}
	case size > maxBlock:
		return field.ErrorList{field.Invalid(at, size, fmt.Sprintf("must be at most %d bytes", maxBlock)).WithOrigin("disks/block-size-large")}
	case bits.OnesCount(size) != 1:
		return field.ErrorList{field.Invalid(at, size, "must be a power of 2").WithOrigin("disks/block-size-power")}
	}
	return nil
}
