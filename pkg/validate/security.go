package validate

import (
	"fmt"

	"github.com/kilnvm/kiln/pkg/config"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	v1 "kubevirt.io/api/core/v1"
)

// Fields: domain.launchSecurity, and with it domain.firmware, features.smm, startStrategy and interfaces[].bootOrder.
// A VMI has one kind of memory encryption (SEV, SNP or TDX) and an EFI build for it, which cannot boot from the network. SNP and TDX
// measure the firmware as a whole, so it cannot keep variables.
// KubeVirt has these rules in validateLaunchSecurity and ValidateLaunchSecurityAmd64, most at the field spec.launchSecurity, which does not
// exist. It reports nothing else while the feature gate is off.

var encryptionRules = []guestRule{
	{launchSecurity, []Rule{
		{Name: "security/encryption-arm64", MendedBy: byInstancetype | byPreference},
		{Name: "security/secure-execution-gate", MendedBy: byInstancetype | byPreference, Until: 8},
		{Name: "security/encryption-kind", MendedBy: byInstancetype | byPreference},
		{Name: "security/encryption-gate", MendedBy: byInstancetype | byPreference},
		{Name: "security/sev-attestation", KubeVirt: KubeVirtRefusesSome},
		{Name: "security/encryption-netboot", MendedBy: byInstancetype | byPreference},
		{Name: "security/tdx-smm"},
		{Name: "security/encryption-efi", KubeVirt: KubeVirtRefusesSome, MendedBy: byCompletion | byInstancetype | byPreference},
		{Name: "security/encryption-secure-boot", MendedBy: byCompletion | byInstancetype | byPreference},
		{Name: "security/encryption-persistent", MendedBy: byInstancetype | byPreference},
	}},
}

// tdx reports whether the VMI is a TDX guest, which Secure Boot, quotes and the firmware's rules ask.
func tdx(spec *v1.VirtualMachineInstanceSpec) bool {
	return spec.Domain.LaunchSecurity != nil && spec.Domain.LaunchSecurity.TDX != nil
}

// launchSecurity judges encryption on amd64, and refuses it on arm64, as KubeVirt does on every architecture but amd64 and s390x.
func launchSecurity(spec *v1.VirtualMachineInstanceSpec, limits config.Limits, path *field.Path) field.ErrorList {
	switch {
	case spec.Domain.LaunchSecurity == nil:
		return nil
	case spec.Architecture == arm64:
		return field.ErrorList{field.Invalid(path.Child("architecture"), arm64,
			"does not support memory encryption: remove domain.launchSecurity").WithOrigin("security/encryption-arm64")}
	case spec.Architecture == s390x: // the boot image decides about Secure Execution; the field only marks the VMI
		return gated(limits, "SecureExecution", path.Child("domain", "launchSecurity")).WithOrigin("security/secure-execution-gate")
	case spec.Architecture != amd64:
		return nil
	}
	return encryption(spec, limits, path)
}

// encryption judges what any kind of encryption requires. Its errors are at the kind, and each text names the field to change: that field
// may come from an instancetype or a preference.
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
	// Without one kind there is no gate and no firmware to ask for.
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
	// KubeVirt refuses bootable interfaces with every kind of encryption.
	for i, nic := range spec.Domain.Devices.Interfaces {
		if nic.BootOrder != nil {
			errs = append(errs, field.Invalid(at, "", fmt.Sprintf("cannot boot from the network: remove bootOrder of devices.interfaces[%d] '%s'", i,
				nic.Name)).WithOrigin("security/encryption-netboot"))
		}
	}
	return errs
}

// encryptedFirmware requires EFI. The builds for SEV and SNP have no Secure Boot; TDX has no SMM, which Secure Boot otherwise needs. SNP and
// TDX have no persistent variables.
func encryptedFirmware(spec *v1.VirtualMachineInstanceSpec, kind string, at *field.Path) (errs field.ErrorList) {
	if features := spec.Domain.Features; kind == "tdx" && features != nil && isEnabled(features.SMM) {
		errs = append(errs, field.Invalid(at, "", "cannot be combined with features.smm: disable it").WithOrigin("security/tdx-smm"))
	}
	loader := efi(spec)
	if loader == nil {
		return append(errs, field.Invalid(at, "", "needs firmware.bootloader.efi").WithOrigin("security/encryption-efi"))
	}
	if kind != "tdx" && ptr.Deref(loader.SecureBoot, true) {
		errs = append(errs, field.Invalid(at, "", "needs firmware.bootloader.efi.secureBoot to be false").WithOrigin("security/encryption-secure-boot"))
	}
	if kind != "sev" && ptr.Deref(loader.Persistent, false) {
		errs = append(errs, field.Invalid(at, "",
			"cannot be combined with firmware.bootloader.efi.persistent: set it to false").WithOrigin("security/encryption-persistent"))
	}
	return errs
}
