package mutate

import (
	"github.com/kilnvm/kiln/pkg/config"
	v1 "kubevirt.io/api/core/v1"
)

// Fields: domain.firmware. KubeVirt sets uuid and serial to random values (SetDefaults_Firmware). Kiln derives them in package identity, so that a dry run and
// a restore have the same values.

// createFirmware creates domain.firmware (SetDefaults_VirtualMachineInstance). On arm64 it adds EFI, the only firmware there, with secureBoot
// off, because its variables have no keys enrolled (setDefaultArm64Bootloader). Trap: KubeVirt leaves an empty bootloader empty.
func createFirmware(vmi *v1.VirtualMachineInstance, _ config.Defaults) {
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
