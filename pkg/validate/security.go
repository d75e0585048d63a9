package validate

import (
	"fmt"

	"github.com/kilnvm/kiln/pkg/config"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// Fields: domain.launchSecurity, and what must be so for it.
// Memory encryption is one of SEV, SNP and TDX, needs EFI firmware of its own, and excludes what the encrypted firmware
// cannot do: SMM, boot from network, and (for those whose firmware is measured as a whole) variables that are kept.

var encryptionRules = []guestRule{
	{launchSecurity, []Rule{
		{Name: "security/encryption-arm64", MendedBy: byInstancetype | byPreference},
		{Name: "security/encryption-kind", MendedBy: byInstancetype | byPreference},
		{Name: "security/encryption-gate", MendedBy: byInstancetype | byPreference},
		{Name: "security/sev-attestation"},
		{Name: "security/encryption-netboot", MendedBy: byInstancetype | byPreference},
		{Name: "security/tdx-smm"},
		{Name: "security/encryption-efi", MendedBy: byCompletion | byInstancetype | byPreference},
		{Name: "security/encryption-secure-boot", MendedBy: byCompletion | byInstancetype | byPreference},
		{Name: "security/encryption-persistent", MendedBy: byInstancetype | byPreference},
	}},
}

func tdx(spec *v1.VirtualMachineInstanceSpec) bool {
	return spec.Domain.LaunchSecurity != nil && spec.Domain.LaunchSecurity.TDX != nil
}

func launchSecurity(spec *v1.VirtualMachineInstanceSpec, limits config.Limits, path *field.Path) field.ErrorList {
	switch {
	case spec.Domain.LaunchSecurity == nil:
		return nil
	case spec.Architecture == arm64:
		return field.ErrorList{field.Invalid(path.Child("architecture"), arm64,
			"does not support memory encryption: remove domain.launchSecurity").WithOrigin("security/encryption-arm64")}
	case spec.Architecture != amd64:
		return nil // on s390x Secure Execution is a matter of the boot image; the field only marks the guest
	}
	return encryption(spec, limits, path)
}

func encryption(spec *v1.VirtualMachineInstanceSpec, limits config.Limits, path *field.Path) (errs field.ErrorList) {
	security := spec.Domain.LaunchSecurity
	at := path.Child("domain", "launchSecurity")
	kind, gate, given := "", "WorkloadEncryptionSEV", 0
	if security.SEV != nil {
		kind, given = "sev", given+1
	}
	if security.SNP != nil {
		kind, given = "snp", given+1
	}
	if security.TDX != nil {
		kind, gate, given = "tdx", "WorkloadEncryptionTDX", given+1
	}
	if given != 1 {
		return field.ErrorList{field.Forbidden(at, "must be exactly one of sev, snp and tdx").WithOrigin("security/encryption-kind")}
	}
	at = at.Child(kind)
	errs = append(errs, gated(limits, gate, at).WithOrigin("security/encryption-gate")...)
	errs = append(errs, encryptedFirmware(spec, kind, at)...)
	if security.SEV != nil && security.SEV.Attestation != nil && (spec.StartStrategy == nil || *spec.StartStrategy != v1.StartStrategyPaused) {
		errs = append(errs, field.Invalid(at.Child("attestation"), "",
			"needs startStrategy 'Paused': the secrets must arrive before the guest runs").WithOrigin("security/sev-attestation"))
	}
	for i, nic := range spec.Domain.Devices.Interfaces {
		if nic.BootOrder != nil {
			errs = append(errs, field.Invalid(at, "", fmt.Sprintf("cannot boot from the network: remove bootOrder of devices.interfaces[%d] '%s'", i,
				nic.Name)).WithOrigin("security/encryption-netboot"))
		}
	}
	return errs
}

// encryptedFirmware is EFI of a build for the encryption, which has neither SMM nor, for SEV and SNP, Secure Boot; SNP and
// TDX guests are measured with their firmware, so that its variables cannot be kept in a file.
func encryptedFirmware(spec *v1.VirtualMachineInstanceSpec, kind string, at *field.Path) (errs field.ErrorList) {
	if features := spec.Domain.Features; kind == "tdx" && features != nil && enabled(features.SMM) {
		errs = append(errs, field.Invalid(at, "", "cannot be combined with features.smm: disable it").WithOrigin("security/tdx-smm"))
	}
	loader := efi(spec)
	if loader == nil {
		return append(errs, field.Invalid(at, "", "needs firmware.bootloader.efi").WithOrigin("security/encryption-efi"))
	}
	if kind != "tdx" && !isFalse(loader.SecureBoot) {
		errs = append(errs, field.Invalid(at, "", "needs firmware.bootloader.efi.secureBoot to be false").WithOrigin("security/encryption-secure-boot"))
	}
	if kind != "sev" && isTrue(loader.Persistent) {
		errs = append(errs, field.Invalid(at, "",
			"cannot be combined with firmware.bootloader.efi.persistent: set it to false").WithOrigin("security/encryption-persistent"))
	}
	return errs
}
