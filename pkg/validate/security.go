package validate

import (
	"github.com/kilnvm/kiln/pkg/config"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// Fields: domain.launchSecurity. AMD and Intel encrypt guests that boot by EFI; s390x does it in its own way.

func launchSecurity(guest *v1.VirtualMachineInstanceSpec, limits config.Limits, spec *field.Path) (errs field.ErrorList) {
	security := guest.Domain.LaunchSecurity
	if security == nil || guest.Architecture == "s390x" {
		return nil
	}
	at := spec.Child("domain", "launchSecurity")
	if guest.Architecture != "amd64" {
		return field.ErrorList{field.Forbidden(at, "architecture '"+guest.Architecture+"' has no confidential guests")}
	}
	kinds := 0
	for _, set := range []bool{security.SEV != nil, security.SNP != nil, security.TDX != nil} {
		if set {
			kinds++
		}
	}
	if kinds != 1 {
		errs = append(errs, field.Forbidden(at, "exactly one of sev, snp and tdx must be set"))
	}
	gate := "WorkloadEncryptionSEV"
	if security.TDX != nil {
		gate = "WorkloadEncryptionTDX"
	}
	if !limits.Gates.Enabled(gate) {
		errs = append(errs, field.Forbidden(at, "the cluster's feature gate '"+gate+"' is off"))
	}
	firmware := guest.Domain.Firmware
	if firmware == nil || firmware.Bootloader == nil || firmware.Bootloader.EFI == nil {
		errs = append(errs, field.Invalid(at, "", "needs `firmware.bootloader.efi`"))
	} else if efi := firmware.Bootloader.EFI; security.TDX == nil && (efi.SecureBoot == nil || *efi.SecureBoot) {
		errs = append(errs, field.Invalid(spec.Child("domain", "firmware", "bootloader", "efi"), "", "Secure Boot does not work with SEV and SNP: set secureBoot to false"))
	}
	if security.TDX != nil && smm(guest) {
		errs = append(errs, field.Forbidden(spec.Child("domain", "features", "smm"), "TDX guests have no system management mode"))
	}
	return errs
}
