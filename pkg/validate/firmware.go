package validate

import (
	"path"

	"github.com/kilnvm/kiln/pkg/config"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// Fields: domain.firmware. Secure Boot protects its keys in system management mode, so that a guest with one needs the other
// (OVMF refuses to start otherwise).

func bootloader(guest *v1.VirtualMachineInstanceSpec, _ config.Limits, spec *field.Path) (errs field.ErrorList) {
	firmware := guest.Domain.Firmware
	if firmware == nil || firmware.Bootloader == nil {
		return nil
	}
	at, boot := spec.Child("domain", "firmware", "bootloader"), firmware.Bootloader
	if boot.EFI != nil && boot.BIOS != nil {
		errs = append(errs, field.Forbidden(at.Child("bios"), "may not be set together with `efi`"))
	}
	if boot.BIOS != nil && guest.Architecture == "arm64" {
		errs = append(errs, field.Forbidden(at.Child("bios"), "architecture 'arm64' boots by EFI only"))
	}
	if boot.EFI != nil && guest.Architecture == "s390x" {
		errs = append(errs, field.Forbidden(at.Child("efi"), "architecture 's390x' has no EFI"))
	}
	secure := boot.EFI != nil && (boot.EFI.SecureBoot == nil || *boot.EFI.SecureBoot)
	tdx := guest.Domain.LaunchSecurity != nil && guest.Domain.LaunchSecurity.TDX != nil
	if secure && guest.Architecture == "amd64" && !tdx && !smm(guest) {
		errs = append(errs, field.Invalid(at.Child("efi"), "secureBoot", "needs `features.smm`: switch that on, or set secureBoot to false"))
	}
	return errs
}

func smm(guest *v1.VirtualMachineInstanceSpec) bool {
	f := guest.Domain.Features
	return f != nil && f.SMM != nil && (f.SMM.Enabled == nil || *f.SMM.Enabled)
}

func kernelBoot(guest *v1.VirtualMachineInstanceSpec, _ config.Limits, spec *field.Path) (errs field.ErrorList) {
	firmware := guest.Domain.Firmware
	if firmware == nil || firmware.KernelBoot == nil {
		return nil
	}
	at := spec.Child("domain", "firmware", "kernelBoot")
	container := firmware.KernelBoot.Container
	if container == nil {
		if firmware.KernelBoot.KernelArgs != "" {
			errs = append(errs, field.Required(at.Child("container"), "`kernelArgs` are for a kernel from a container"))
		}
		return errs
	}
	at = at.Child("container")
	if container.Image == "" {
		errs = append(errs, field.Required(at.Child("image"), ""))
	}
	if container.KernelPath == "" && container.InitrdPath == "" {
		errs = append(errs, field.Required(at.Child("kernelPath"), "name a kernel, an initrd or both"))
	}
	errs = append(errs, imagePath(container.KernelPath, at.Child("kernelPath"))...)
	return append(errs, imagePath(container.InitrdPath, at.Child("initrdPath"))...)
}

// imagePath is the path of a file in an image.
func imagePath(given string, at *field.Path) field.ErrorList {
	if given == "" || path.IsAbs(given) && path.Clean(given) == given && given != "/" {
		return nil
	}
	return field.ErrorList{field.Invalid(at, given, "must be the absolute path of a file without '.', '..' and doubled slashes")}
}
