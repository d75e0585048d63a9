package backend

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"
)

// Elements: os/loader, os/nvram, os/kernel, os/initrd, os/acpi/table, sysinfo/entry@file. The frontend names a class of firmware; the host has
// builds of it.
// KubeVirt: converter/compute/os.go and efi/efi.go. libvirt: "BIOS bootloader". QEMU: docs/interop/firmware.json.

// os replaces the class of the firmware by a build, and leaves all else of the frontend's element.
func (h *host) os() *libvirtxml.DomainOS {
	out := *h.Frontend.OS
	if out.Firmware == "efi" {
		h.efi(&out)
	}
	h.kernel(&out)
	h.acpiTables(&out)
	return &out
}

// efi names the build by its path. libvirt's autoselection would choose among all builds of the class anew at each start.
func (h *host) efi(out *libvirtxml.DomainOS) {
	secure := feature(out.FirmwareInfo, "secure-boot")
	build := h.firmware(secure)
	if build == nil {
		kind := "EFI firmware without enrolled keys"
		if secure {
			kind = "EFI firmware with Secure Boot and enrolled keys"
		}
		if shield := h.shield(); shield != "" {
			kind += " for '" + shield + "'"
		}
		h.fail(field.Invalid(h.domain.Child("firmware", "bootloader", "efi"), "", h.node()+" has no "+kind+" for machine '"+out.Type.Machine+"'"))
		return
	}
	stateless := out.Loader != nil && out.Loader.Stateless == "yes"
	out.Firmware, out.FirmwareInfo = "", nil
	if stateless {
		out.Loader = &libvirtxml.DomainLoader{Path: build.Code, Readonly: "yes", Type: "rom", Stateless: "yes"}
		return
	}
	out.Loader = &libvirtxml.DomainLoader{Path: build.Code, Readonly: "yes", Type: "pflash"}
	if secure {
		out.Loader.Secure = "yes"
	}
	if h.Bindings.NVRAM == "" {
		h.fail(field.Invalid(h.domain.Child("firmware", "bootloader", "efi"), "", h.node()+" has no binding for the firmware's variable store"))
		return
	}
	out.NVRam = &libvirtxml.DomainNVRam{NVRam: h.Bindings.NVRAM, Template: build.VarsTemplate}
}

// firmware returns the first build, in the host's order, with exactly the features that the guest needs: with enrolled keys, a guest with
// secureBoot 'false' would not boot an unsigned loader. It returns nil if there is none.
func (h *host) firmware(secure bool) *Firmware {
	for i, build := range h.Host.Firmware {
		if build.Architecture != h.spec.Architecture || !matches(build.Machines, h.Frontend.OS.Type.Machine) {
			continue
		}
		has := func(name string) bool { return slices.Contains(build.Features, name) }
		if shield := h.shield(); shield != "" && !has(shield) || shield == "" && build.VarsTemplate == "" {
			continue // a build without variable store is for encrypted memory only
		}
		if has("requires-smm") && !h.smm() || secure != (has("secure-boot") && has("enrolled-keys")) {
			continue
		}
		return &h.Host.Firmware[i]
	}
	return nil
}

// shield returns the feature of QEMU's firmware descriptors that a build needs for launchSecurity; empty without.
func (h *host) shield() string {
	switch s := h.Frontend.LaunchSecurity; {
	case s == nil:
	case s.SEVSNP != nil:
		return "amd-sev-snp"
	case s.TDX != nil:
		return "intel-tdx"
	case s.SEV != nil && s.SEV.Policy != nil && *s.SEV.Policy&sevES != 0:
		return "amd-sev-es"
	case s.SEV != nil:
		return "amd-sev"
	}
	return ""
}

// sevES is the bit of a SEV guest policy that encrypts the registers (SEV-ES).
const sevES = 0x4

// smm reports whether the guest has System Management Mode, by which Secure Boot protects the variable store on x86.
func (h *host) smm() bool {
	f := h.Frontend.Features
	return f != nil && f.SMM != nil && f.SMM.State != "off"
}

func feature(info *libvirtxml.DomainOSFirmwareInfo, name string) bool {
	return info != nil && slices.ContainsFunc(info.Features, func(f libvirtxml.DomainOSFirmwareFeature) bool { return f.Name == name && f.Enabled == "yes" })
}

// kernel adds the paths of kernelBoot. The frontend has the arguments, which the guest sees.
func (h *host) kernel(out *libvirtxml.DomainOS) {
	firmware := h.spec.Domain.Firmware
	if firmware == nil || firmware.KernelBoot == nil || firmware.KernelBoot.Container == nil {
		return
	}
	container, at := firmware.KernelBoot.Container, h.domain.Child("firmware", "kernelBoot", "container")
	if container.KernelPath != "" && h.Bindings.Kernel == "" {
		h.fail(field.Invalid(at.Child("kernelPath"), container.KernelPath, h.node()+" has no binding for this file"))
	}
	if container.InitrdPath != "" && h.Bindings.Initrd == "" {
		h.fail(field.Invalid(at.Child("initrdPath"), container.InitrdPath, h.node()+" has no binding for this file"))
	}
	out.Kernel, out.Initrd = h.Bindings.Kernel, h.Bindings.Initrd
}

// acpiTables adds the paths of the tables that the frontend names.
func (h *host) acpiTables(out *libvirtxml.DomainOS) {
	if out.ACPI == nil {
		return
	}
	tables := &libvirtxml.DomainACPI{}
	for _, table := range out.ACPI.Tables {
		table.Path = h.Bindings.ACPITables[strings.ToLower(table.Type)]
		if table.Path == "" {
			h.fail(field.Invalid(h.domain.Child("firmware", "acpi", table.Type+"NameRef"), table.Type, h.node()+" has no binding for this table"))
		}
		tables.Tables = append(tables.Tables, table)
	}
	out.ACPI = tables
}

// sysinfo adds the paths of fw_cfg files, such as Ignition's.
func (h *host) sysinfo() []libvirtxml.DomainSysInfo {
	out := slices.Clone(h.Frontend.SysInfo)
	for i := range out {
		if out[i].FWCfg == nil {
			continue
		}
		entries := slices.Clone(out[i].FWCfg.Entry)
		for j := range entries {
			entries[j].File = h.Bindings.FirmwareFiles[entries[j].Name]
			if entries[j].File == "" {
				path := field.NewPath("metadata", "annotations").Key(v1.IgnitionAnnotation)
				h.fail(field.Invalid(path, field.OmitValueType{}, h.node()+" has no binding for '"+entries[j].Name+"'"))
			}
		}
		out[i].FWCfg = &libvirtxml.DomainSysInfoFWCfg{Entry: entries}
	}
	return out
}
