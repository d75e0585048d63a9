package mutate

import (
	"github.com/kilnvm/kiln/pkg/config"
	v1 "kubevirt.io/api/core/v1"
)

// Fields: domain.firmware. Its UUID and serial are identity, which pkg/identity derives. arm64 boots by EFI only, and its
// firmware has no keys enrolled, so that Secure Boot is off unless asked for.
func firmware(vmi *v1.VirtualMachineInstance, _ config.Defaults) {
	domain := &vmi.Spec.Domain
	if domain.Firmware == nil {
		domain.Firmware = &v1.Firmware{}
	}
	if vmi.Spec.Architecture != "arm64" {
		return
	}
	if domain.Firmware.Bootloader == nil {
		domain.Firmware.Bootloader = &v1.Bootloader{}
	}
	boot := domain.Firmware.Bootloader
	if boot.EFI == nil && boot.BIOS == nil {
		boot.EFI = &v1.EFI{}
	}
	if boot.EFI != nil && boot.EFI.SecureBoot == nil {
		boot.EFI.SecureBoot = new(false)
	}
}
