package backend

import (
	"cmp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"
)

// Elements: os/loader, os/nvram, os/kernel, os/initrd, os/acpi/table, sysinfo/entry@file. The frontend names a class of firmware; the host has
// builds of it.
// KubeVirt: converter/compute/os.go and efi/efi.go. libvirt: "BIOS bootloader". QEMU: docs/interop/firmware.json.

// completeOS replaces the class of the firmware by a build, and leaves all else of the frontend's element.
func (h *host) completeOS() *libvirtxml.DomainOS {
	out := *h.Frontend.OS
	if out.Firmware == "efi" {
		h.completeEFI(&out)
	}
	h.addKernel(&out)
	h.acpiTables(&out)
	return &out
}

// completeEFI adds the path of the build. libvirt's autoselection would choose again among all builds of the class at each start.
func (h *host) completeEFI(out *libvirtxml.DomainOS) {
	secure := hasFeature(out.FirmwareInfo, "secure-boot")
	stateless := out.Loader != nil && out.Loader.Stateless == "yes"
	at := h.domain.Child("firmware", "bootloader", "efi")
	builds := h.matchingBuilds(secure)
	if len(builds) == 0 {
		h.addError(field.Invalid(at, "", h.nodeName()+" has no "+h.describeFirmware(secure)+" for machine '"+out.Type.Machine+"'"))
		return
	}
	build, why := h.readableBuild(builds, stateless)
	if build == nil {
		h.addError(field.Invalid(at, "", h.nodeName()+" has "+h.describeFirmware(secure)+
			" only in format '"+formatOf(builds[0])+"' ('"+builds[0].Code+"'), and "+why))
		return
	}
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
		h.addError(field.Invalid(at, "", h.nodeName()+" has no binding for the firmware's variable store"))
		return
	}
	out.NVRam = &libvirtxml.DomainNVRam{NVRam: h.Bindings.NVRAM, Template: build.VarsTemplate}
	if formatOf(build) == qcow2 { // raw is what every libvirt takes the files for
		out.Loader.Format, out.NVRam.Format, out.NVRam.NVRam = qcow2, qcow2, NVRAMIn(qcow2, h.Bindings.NVRAM)
		if namesTemplateFormat.offeredBy(h.Host) {
			out.NVRam.TemplateFormat = qcow2
		}
	}
}

// describeFirmware names what the guest needs, for errors.
func (h *host) describeFirmware(secure bool) string {
	kind := "EFI firmware without enrolled keys"
	if secure {
		kind = "EFI firmware with Secure Boot and enrolled keys"
	}
	if shield := h.encryptionFeature(); shield != "" {
		kind += " for '" + shield + "'"
	}
	return kind
}

// Formats of firmware and variable stores. libvirt has others in no descriptor's place.
const (
	raw   = "raw"
	qcow2 = "qcow2"
)

// formatOf returns the format of a build; one that is not given is raw.
func formatOf(build *Firmware) string { return cmp.Or(build.Format, raw) }

// NVRAMIn returns the file of a variable store in a format, given the file of one in format raw. Each format has a file of its own: a store that was made in
// one is never read as another. The format is not found out from the content, which the guest may have written.
func NVRAMIn(format, file string) string {
	if format == raw {
		return file
	}
	return file + "." + format
}

// since is what a libvirt has since a version.
type since string

// offeredBy reports whether the host's libvirt is that new. A version that is unknown is assumed to be.
func (s since) offeredBy(host Capabilities) bool { return len(tooOld(host, string(s), "")) == 0 }

// Attributes of loader and nvram, by libvirt's page "BIOS bootloader". Older versions ignore them, and read every file as raw.
const (
	namesFormat         since = "9.2.0"
	namesTemplateFormat since = "10.10.0"
)

// readableBuild returns the first of the builds that libvirt can read, those in format raw before others. Where the VMI has a variable store already, the build
// is in the format of the store. Without such a build it returns why.
func (h *host) readableBuild(builds []*Firmware, stateless bool) (build *Firmware, why string) {
	only, because := h.Bindings.NVRAMFormat, "the variables of the guest's firmware are in format '"+h.Bindings.NVRAMFormat+
		"'; run the VMI on a host that has a build in this format"
	switch {
	case stateless: // QEMU maps the file as it is
		only, because = raw, "encrypted memory needs one in format 'raw'; install it"
	case h.policy.PathTemplates.NVRAM != "": // nobody knows whether that file is there, and in which format
		only, because = raw, "hostProfile.pathTemplates.nvram needs one in format 'raw'; install it"
	}
	for _, wanted := range []string{raw, qcow2} {
		i := slices.IndexFunc(builds, func(f *Firmware) bool { return formatOf(f) == wanted })
		switch {
		case i < 0 || only != "" && only != wanted:
		case wanted == qcow2 && !namesFormat.offeredBy(h.Host):
			return nil, "libvirt " + h.Host.LibvirtVersion + ", which reads it from version " + string(namesFormat) + " on; install a build in format 'raw'"
		default:
			return builds[i], ""
		}
	}
	if only != "" {
		return nil, because
	}
	return nil, "it must be 'raw' or 'qcow2'"
}

// matchingBuilds returns the builds, in the host's order, with exactly the features that the guest needs: with enrolled keys, a guest with
// secureBoot 'false' would not boot an unsigned loader.
func (h *host) matchingBuilds(secure bool) (builds []*Firmware) {
	for i, build := range h.Host.Firmware {
		if build.Architecture != h.spec.Architecture || !matchesMachine(build.Machines, h.Frontend.OS.Type.Machine) {
			continue
		}
		has := func(name string) bool { return slices.Contains(build.Features, name) }
		if shield := h.encryptionFeature(); shield != "" && !has(shield) || shield == "" && build.VarsTemplate == "" {
			continue // a build without variable store is for encrypted memory only
		}
		if has("requires-smm") && !h.hasSMM() || secure != (has("secure-boot") && has("enrolled-keys")) {
			continue
		}
		builds = append(builds, &h.Host.Firmware[i])
	}
	return builds
}

// encryptionFeature returns the feature of QEMU's firmware descriptors that a build needs for launchSecurity; empty without.
func (h *host) encryptionFeature() string {
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

// hasSMM reports whether the guest has System Management Mode, by which Secure Boot protects the variable store on x86.
func (h *host) hasSMM() bool {
	f := h.Frontend.Features
	return f != nil && f.SMM != nil && f.SMM.State != "off"
}

func hasFeature(info *libvirtxml.DomainOSFirmwareInfo, name string) bool {
	return info != nil && slices.ContainsFunc(info.Features, func(f libvirtxml.DomainOSFirmwareFeature) bool { return f.Name == name && f.Enabled == "yes" })
}

// addKernel adds the paths of kernelBoot. The frontend has the arguments, which the guest sees.
func (h *host) addKernel(out *libvirtxml.DomainOS) {
	firmware := h.spec.Domain.Firmware
	if firmware == nil || firmware.KernelBoot == nil || firmware.KernelBoot.Container == nil {
		return
	}
	container, at := firmware.KernelBoot.Container, h.domain.Child("firmware", "kernelBoot", "container")
	if container.KernelPath != "" && h.Bindings.Kernel == "" {
		h.addError(field.Invalid(at.Child("kernelPath"), container.KernelPath, h.nodeName()+" has no binding for this file"))
	}
	if container.InitrdPath != "" && h.Bindings.Initrd == "" {
		h.addError(field.Invalid(at.Child("initrdPath"), container.InitrdPath, h.nodeName()+" has no binding for this file"))
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
			h.addError(field.Invalid(h.domain.Child("firmware", "acpi", table.Type+"NameRef"), table.Type, h.nodeName()+" has no binding for this table"))
		}
		tables.Tables = append(tables.Tables, table)
	}
	out.ACPI = tables
}

// completeSysInfo adds the paths of fw_cfg files, such as Ignition's.
func (h *host) completeSysInfo() []libvirtxml.DomainSysInfo {
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
				h.addError(field.Forbidden(path, h.nodeName()+" has no binding for '"+entries[j].Name+"'"))
			}
		}
		out[i].FWCfg = &libvirtxml.DomainSysInfoFWCfg{Entry: entries}
	}
	return out
}
