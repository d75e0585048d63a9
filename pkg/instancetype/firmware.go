package instancetype

import (
	"github.com/kilnvm/kiln/pkg/internal/filled"
	"k8s.io/utils/ptr"
	v1 "kubevirt.io/api/core/v1"
	"kubevirt.io/api/instancetype/v1beta1"
)

// Fields of a preference: firmware.preferredUseBios, preferredUseBiosSerial, preferredEfi, and the deprecated preferredUseEfi
// and preferredUseSecureBoot.

// preferFirmware is applyFirmwarePreferences. It creates domain.firmware.bootloader even if it fills nothing, as in KubeVirt.
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

// preferBootloader chooses between BIOS and EFI if the VMI has neither. The order decides between fields of one preference: BIOS, then
// preferredEfi, then the deprecated fields.
func preferBootloader(want *v1beta1.FirmwarePreferences, boot *v1.Bootloader, log *filled.Log) {
	unset := func() bool { return boot.BIOS == nil && boot.EFI == nil }
	if ptr.Deref(want.PreferredUseBios, false) && unset() {
		boot.BIOS = &v1.BIOS{}
		log.Note(&boot.BIOS, &v1.BIOS{})
	}
	if want.PreferredUseBiosSerial != nil && boot.BIOS != nil {
		fillPointer(log, &boot.BIOS.UseSerial, want.PreferredUseBiosSerial)
	}
	if want.PreferredEfi != nil && unset() {
		boot.EFI = want.PreferredEfi.DeepCopy()
		log.Note(&boot.EFI, want.PreferredEfi)
		return // it replaces both deprecated fields
	}
	if ptr.Deref(want.DeprecatedPreferredUseEfi, false) && unset() {
		boot.EFI = &v1.EFI{}
		log.Note(&boot.EFI, &v1.EFI{})
	}
	if boot.EFI != nil {
		fillPointer(log, &boot.EFI.SecureBoot, want.DeprecatedPreferredUseSecureBoot)
	}
}
