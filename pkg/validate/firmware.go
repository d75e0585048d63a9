package validate

import (
	gopath "path"
	"regexp"
	"slices"
	"strings"

	"github.com/kilnvm/kiln/pkg/config"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	v1 "kubevirt.io/api/core/v1"
)

// Fields: domain.firmware.
// There is one bootloader, which the architecture has. Secure Boot needs System Management Mode (or TDX) to protect its variables. An external
// kernel comes from a container image, ACPI tables from Secrets.
// KubeVirt has these rules in validateFirmware, validateDomainSpec and, for arm64, validateBootOptions.

var firmwareRules = []guestRule{
	{bootloader, []Rule{
		{Name: "firmware/bios-arm64", KubeVirt: KubeVirtRefusesVMI, MendedBy: byPreference, NamesArchitecture: true},
		{Name: "firmware/efi-s390x", KubeVirt: KubeVirtRefusesSome, MendedBy: byPreference, NamesArchitecture: true},
		{Name: "firmware/bootloaders", MendedBy: byPreference},
	}},
	{secureBoot, []Rule{
		{Name: "firmware/secure-boot-arm64", KubeVirt: KubeVirtAdmits, MendedBy: byPreference, NamesArchitecture: true},
		{Name: "firmware/secure-boot-smm", MendedBy: byCompletion | byInstancetype | byPreference},
		{Name: "firmware/secure-boot-tdx", MendedBy: byCompletion | byInstancetype | byPreference, Until: 8},
	}},
	{kernelBoot, []Rule{
		{Name: "firmware/kernel-args", MendedBy: byPreference},
		{Name: "firmware/kernel-image", MendedBy: byPreference},
		{Name: "firmware/kernel-files", MendedBy: byPreference},
		{Name: "firmware/pull-policy", MendedBy: byPreference},
		{Name: "firmware/kernel-path", MendedBy: byPreference},
		{Name: "firmware/initrd-path", MendedBy: byPreference},
	}},
	{firmwareUUID, []Rule{
		{Name: "firmware/uuid", KubeVirt: KubeVirtAdmits, MendedBy: byPreference},
	}},
	{acpiTables, []Rule{
		{Name: "firmware/acpi-empty", MendedBy: byPreference},
		{Name: "firmware/acpi-volume", MendedBy: byPreference},
		{Name: "firmware/acpi-secret", MendedBy: byPreference},
	}},
	{serialFirmware, []Rule{
		{Name: "firmware/serial-port", KubeVirt: KubeVirtAdmits, MendedBy: byPreference},
		{Name: "firmware/serial-s390x", KubeVirt: KubeVirtAdmits, MendedBy: byPreference, NamesArchitecture: true},
	}},
	{firmwareTables, []Rule{
		{Name: "firmware/efi-acpi", KubeVirt: KubeVirtAdmits, MendedBy: byPreference},
	}},
}

// bootloader is validateBootloader, which refuses two bootloaders. KubeVirt accepts EFI on s390x and finds no firmware image when the
// VMI starts.
func bootloader(spec *v1.VirtualMachineInstanceSpec, limits config.Limits, path *field.Path) (errs field.ErrorList) {
	firmware := spec.Domain.Firmware
	if firmware == nil || firmware.Bootloader == nil {
		return nil
	}
	path = path.Child("domain", "firmware", "bootloader")
	errs = oneBootloader(firmware, path)
	if firmware.Bootloader.BIOS != nil && spec.Architecture == arm64 {
		errs = append(errs, field.Forbidden(path.Child("bios"), "architecture 'arm64' boots through EFI only: use efi").WithOrigin("firmware/bios-arm64"))
	}
	if firmware.Bootloader.EFI != nil && spec.Architecture == s390x {
		errs = append(errs, field.Forbidden(path.Child("efi"), "architecture 's390x' has no EFI: remove it").WithOrigin("firmware/efi-s390x"))
	}
	return errs
}

func oneBootloader(firmware *v1.Firmware, path *field.Path) field.ErrorList {
	if firmware == nil || firmware.Bootloader == nil || firmware.Bootloader.EFI == nil || firmware.Bootloader.BIOS == nil {
		return nil
	}
	return field.ErrorList{field.Forbidden(path.Child("bios"), "cannot be combined with efi: remove one of them").WithOrigin("firmware/bootloaders")}
}

// efi returns spec.domain.firmware.bootloader.efi, or nil.
func efi(spec *v1.VirtualMachineInstanceSpec) *v1.EFI {
	if spec.Domain.Firmware == nil || spec.Domain.Firmware.Bootloader == nil {
		return nil
	}
	return spec.Domain.Firmware.Bootloader.EFI
}

// secureBoot is on unless it is off explicitly. SMM keeps the guest's kernel from writing the firmware's keys; TDX has no SMM, but
// measures the firmware.
// In KubeVirt it is validateDomainSpec. KubeVirt admits Secure Boot with SMM on arm64, where QEMU has no SMM: the guest could write its own keys.
//
// Until v1.8 KubeVirt wants SMM of TDX guests, too.
func secureBoot(spec *v1.VirtualMachineInstanceSpec, _ config.Limits, path *field.Path) field.ErrorList {
	loader, features := efi(spec), spec.Domain.Features
	if loader != nil && ptr.Deref(loader.SecureBoot, false) && spec.Architecture == arm64 && features != nil && isEnabled(features.SMM) {
		at := path.Child("domain", "firmware", "bootloader", "efi", "secureBoot")
		return field.ErrorList{field.Forbidden(at,
			"architecture 'arm64' has no SMM, which protects the Secure Boot keys from the guest: set secureBoot to false").WithOrigin("firmware/secure-boot-arm64")}
	}
	if loader == nil || !ptr.Deref(loader.SecureBoot, true) || features != nil && isEnabled(features.SMM) || spec.Architecture == s390x {
		return nil
	}
	at := path.Child("domain", "firmware", "bootloader", "efi", "secureBoot")
	if tdx(spec) {
		why := "needs features.smm, which TDX guests do not have: set secureBoot to false"
		return field.ErrorList{field.Invalid(at, true, why).WithOrigin("firmware/secure-boot-tdx")}
	}
	return field.ErrorList{field.Invalid(at, true, "needs features.smm: enable it, or set secureBoot to false").WithOrigin("firmware/secure-boot-smm")}
}

// isEnabled reports whether a feature is on: a feature that is set is on unless enabled is false.
func isEnabled(state *v1.FeatureState) bool { return state != nil && ptr.Deref(state.Enabled, true) }

func kernelBoot(spec *v1.VirtualMachineInstanceSpec, _ config.Limits, path *field.Path) field.ErrorList {
	if firmware := spec.Domain.Firmware; firmware != nil && firmware.KernelBoot != nil {
		return externalKernel(firmware, path.Child("domain", "firmware", "kernelBoot"))
	}
	return nil
}

// externalKernel is validateKernelBoot. Either of kernelPath and initrdPath is enough.
func externalKernel(firmware *v1.Firmware, path *field.Path) (errs field.ErrorList) {
	if firmware == nil || firmware.KernelBoot == nil {
		return nil
	}
	container := firmware.KernelBoot.Container
	if container == nil {
		if firmware.KernelBoot.KernelArgs != "" {
			errs = append(errs, field.Invalid(path.Child("kernelArgs"), firmware.KernelBoot.KernelArgs,
				"needs a kernel: set kernelBoot.container").WithOrigin("firmware/kernel-args"))
		}
		return errs
	}
	path = path.Child("container")
	if container.Image == "" {
		errs = append(errs, field.Required(path.Child("image"), "name the image that holds the kernel").WithOrigin("firmware/kernel-image"))
	}
	if container.KernelPath == "" && container.InitrdPath == "" {
		errs = append(errs, field.Required(path.Child("kernelPath"), "give kernelPath, initrdPath or both").WithOrigin("firmware/kernel-files"))
	}
	// KubeVirt accepts any word here, and Kubernetes refuses the pod.
	if given := container.ImagePullPolicy; !isPullPolicy(given) {
		errs = append(errs, field.NotSupported(path.Child("imagePullPolicy"), given, pullPolicies).WithOrigin("firmware/pull-policy"))
	}
	errs = append(errs, filePath(path.Child("kernelPath"), container.KernelPath).WithOrigin("firmware/kernel-path")...)
	return append(errs, filePath(path.Child("initrdPath"), container.InitrdPath).WithOrigin("firmware/initrd-path")...)
}

// pullPolicies are the policies of pods. Without this rule Kubernetes would refuse the pod of a VMI that was admitted.
var pullPolicies = []corev1.PullPolicy{corev1.PullAlways, corev1.PullIfNotPresent, corev1.PullNever}

func isPullPolicy(given corev1.PullPolicy) bool {
	return given == "" || slices.Contains(pullPolicies, given)
}

// filePath requires the absolute path of a file in an image that cannot leave the image.
// In KubeVirt it is ValidatePath. The image is a tenant's: '..' would lead out of the directory in which it is mounted.
func filePath(at *field.Path, given string) field.ErrorList {
	switch {
	case given == "":
		return nil
	case given == "/":
		return field.ErrorList{field.Invalid(at, given, "must be a file, not the root directory")}
	// One slash at the end is legal, as in KubeVirt.
	case !gopath.IsAbs(given) || gopath.Clean(given) != strings.TrimSuffix(given, "/"):
		return field.ErrorList{field.Invalid(at, given, "must be an absolute path without '.', '..' and double slashes")}
	}
	return nil
}

// serialFirmware requires a PC, whose BIOS alone can use a serial port, and the port.
func serialFirmware(spec *v1.VirtualMachineInstanceSpec, _ config.Limits, path *field.Path) field.ErrorList {
	f := spec.Domain.Firmware
	if f == nil || f.Bootloader == nil || f.Bootloader.BIOS == nil || !ptr.Deref(f.Bootloader.BIOS.UseSerial, false) {
		return nil
	}
	at := path.Child("domain", "firmware", "bootloader", "bios", "useSerial")
	switch {
	case !ptr.Deref(spec.Domain.Devices.AutoattachSerialConsole, true):
		return field.ErrorList{field.Invalid(at, true,
			"needs a serial port: set devices.autoattachSerialConsole to true, or remove useSerial").WithOrigin("firmware/serial-port")}
	case spec.Architecture == s390x:
		return field.ErrorList{field.Forbidden(at, "architecture 's390x' has no BIOS: remove useSerial").WithOrigin("firmware/serial-s390x")}
	}
	return nil
}

// firmwareTables requires ACPI with EFI: QEMU does not start EFI without ACPI tables.
func firmwareTables(spec *v1.VirtualMachineInstanceSpec, _ config.Limits, path *field.Path) field.ErrorList {
	features := spec.Domain.Features
	if efi(spec) == nil || features == nil || ptr.Deref(features.ACPI.Enabled, true) || spec.Architecture == s390x {
		return nil
	}
	at := path.Child("domain", "features", "acpi", "enabled")
	return field.ErrorList{field.Invalid(at, false, "firmware.bootloader.efi needs ACPI: enable it").WithOrigin("firmware/efi-acpi")}
}

// uuidForm is libvirt's: dashes are optional.
var uuidForm = regexp.MustCompile(`^[0-9a-fA-F]{8}(-?[0-9a-fA-F]{4}){3}-?[0-9a-fA-F]{12}$`)

// firmwareUUID: KubeVirt accepts any text, and libvirt refuses the domain.
func firmwareUUID(spec *v1.VirtualMachineInstanceSpec, _ config.Limits, path *field.Path) field.ErrorList {
	if f := spec.Domain.Firmware; f == nil || f.UUID == "" || uuidForm.MatchString(string(f.UUID)) {
		return nil
	}
	return field.ErrorList{field.Invalid(path.Child("domain", "firmware", "uuid"), spec.Domain.Firmware.UUID,
		"must be a UUID such as '5d307ca9-b3ef-428c-8861-06e72d69f223'").WithOrigin("firmware/uuid")}
}

// acpiTables is validateFirmwareACPI: SLIC and MSDM tables hold license keys, so they come from Secrets.
func acpiTables(spec *v1.VirtualMachineInstanceSpec, _ config.Limits, path *field.Path) (errs field.ErrorList) {
	if spec.Domain.Firmware == nil || spec.Domain.Firmware.ACPI == nil {
		return nil
	}
	acpi := spec.Domain.Firmware.ACPI
	path = path.Child("domain", "firmware", "acpi")
	if acpi.SlicNameRef == "" && acpi.MsdmNameRef == "" {
		return field.ErrorList{field.Required(path, "give slicNameRef or msdmNameRef, or remove acpi").WithOrigin("firmware/acpi-empty")}
	}
	errs = append(errs, secretVolume(spec, acpi.SlicNameRef, path.Child("slicNameRef"))...)
	return append(errs, secretVolume(spec, acpi.MsdmNameRef, path.Child("msdmNameRef"))...)
}

// secretVolume is validateACPIRef.
func secretVolume(spec *v1.VirtualMachineInstanceSpec, name string, at *field.Path) field.ErrorList {
	if name == "" {
		return nil
	}
	i := slices.IndexFunc(spec.Volumes, func(v v1.Volume) bool { return v.Name == name })
	switch {
	case i < 0:
		return field.ErrorList{field.NotFound(at, name).WithOrigin("firmware/acpi-volume")}
	case spec.Volumes[i].Secret == nil:
		return field.ErrorList{field.Invalid(at, name, "must name a volume that is a secret").WithOrigin("firmware/acpi-secret")}
	}
	return nil
}
