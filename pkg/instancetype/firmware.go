package instancetype

import (
	"github.com/kilnvm/kiln/pkg/internal/filled"
	v1 "kubevirt.io/api/core/v1"
	"kubevirt.io/api/instancetype/v1beta1"
)

// Fields of a preference: firmware.preferredUseBios, preferredUseBiosSerial, preferredEfi, and the deprecated preferredUseEfi
// and preferredUseSecureBoot. A guest that names a boot loader keeps it.

func preferFirmware(p *Preference, vmi *v1.VirtualMachineInstance, log *filled.Log) {
	want := p.Spec.Firmware
	if want == nil {
		return
	}
	domain := &vmi.Spec.Domain
	if domain.Firmware == nil {
		domain.Firmware = &v1.Firmware{}
	}
	if domain.Firmware.Bootloader == nil {
		domain.Firmware.Bootloader = &v1.Bootloader{}
	}
	preferBootloader(want, domain.Firmware.Bootloader, log)
}

func preferBootloader(want *v1beta1.FirmwarePreferences, boot *v1.Bootloader, log *filled.Log) {
	free := func() bool { return boot.BIOS == nil && boot.EFI == nil }
	if isTrue(want.PreferredUseBios) && free() {
		boot.BIOS = &v1.BIOS{}
		log.Note(&boot.BIOS, &v1.BIOS{})
	}
	if want.PreferredUseBiosSerial != nil && boot.BIOS != nil {
		fill(log, &boot.BIOS.UseSerial, want.PreferredUseBiosSerial)
	}
	if want.PreferredEfi != nil && free() {
		boot.EFI = want.PreferredEfi.DeepCopy()
		log.Note(&boot.EFI, want.PreferredEfi)
		return // it says all that the deprecated fields say
	}
	if isTrue(want.DeprecatedPreferredUseEfi) && free() {
		boot.EFI = &v1.EFI{}
		log.Note(&boot.EFI, &v1.EFI{})
	}
	if boot.EFI != nil {
		fill(log, &boot.EFI.SecureBoot, want.DeprecatedPreferredUseSecureBoot)
	}
}

func isTrue(flag *bool) bool { return flag != nil && *flag }
