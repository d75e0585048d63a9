package backend

import (
	"cmp"
	"path"
	"slices"
	"strings"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/record"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
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

// completeEFI adds the path of the build. libvirt's autoselection would choose again among all builds of the class at each start. The frontend names the build
// of the last boot if the host has it: another build may read another variable store, and the guest's TPM measures it.
func (h *host) completeEFI(out *libvirtxml.DomainOS) {
	needs := needsOf(h.spec, out.Type.Machine)
	at := h.domain.Child("firmware", "bootloader", "efi")
	builds := needs.matchingBuilds(h.Host)
	if len(builds) == 0 {
		h.addError(field.Invalid(at, "", h.nodeName()+" has no "+needs.describe()+" for machine '"+out.Type.Machine+"'"))
		return
	}
	format, because := h.onlyFormat(needs.stateless)
	readable, why := readableBuilds(builds, h.Host, format, because)
	if len(readable) == 0 {
		h.addError(field.Invalid(at, "", h.nodeName()+" has "+needs.describe()+
			" only in format '"+formatOf(builds[0])+"' ('"+builds[0].Code+"'), and "+why))
		return
	}
	build := readable[0]
	if loader := out.Loader; loader != nil {
		recorded := func(f *Firmware) bool { return path.Base(f.Code) == loader.Path }
		build = readable[max(0, slices.IndexFunc(readable, recorded))]
	}
	out.Firmware, out.FirmwareInfo = "", nil
	if needs.stateless {
		out.Loader = &libvirtxml.DomainLoader{Path: build.Code, Readonly: "yes", Type: "rom", Stateless: "yes"}
		return
	}
	out.Loader = &libvirtxml.DomainLoader{Path: build.Code, Readonly: "yes", Type: "pflash"}
	if needs.secure {
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

// FirmwareBuilds returns the file names of the builds of EFI firmware with which a host can start the VMI, the preferred one first. It returns nil without EFI,
// and for an assumed host, which has no name.
func FirmwareBuilds(vmi *v1.VirtualMachineInstance, host Capabilities, bindings Bindings) (names []string) {
	spec := &vmi.Spec
	if f := spec.Domain.Firmware; host.NodeName == "" || f == nil || f.Bootloader == nil || f.Bootloader.EFI == nil || spec.Domain.Machine == nil {
		return nil
	}
	machine := spec.Domain.Machine.Type
	needs := needsOf(spec, cmp.Or(host.Machines[spec.Architecture][machine], machine))
	format := bindings.NVRAMFormat
	if needs.stateless {
		format = raw
	}
	readable, _ := readableBuilds(needs.matchingBuilds(host), host, format, "")
	for _, build := range readable {
		if name := path.Base(build.Code); record.CheckFirmware(name) == nil && !slices.Contains(names, name) && len(names) < v1alpha1.MostFirmwareBuilds {
			names = append(names, name)
		}
	}
	return names
}

// firmwareNeeds are what a guest needs of its firmware build.
type firmwareNeeds struct {
	architecture, machine string
	// secure asks for Secure Boot with enrolled keys.
	secure bool
	// shield is the feature of QEMU's firmware descriptors for launchSecurity; empty without.
	shield string
	// stateless builds have no variable store: SNP and TDX measure the firmware at the start.
	stateless bool
	// smm is System Management Mode, by which Secure Boot protects the variable store on x86.
	smm bool
}

// needsOf returns the needs of a guest with EFI on a machine.
func needsOf(spec *v1.VirtualMachineInstanceSpec, machine string) firmwareNeeds {
	needs := firmwareNeeds{architecture: spec.Architecture, machine: machine, secure: true}
	if f := spec.Domain.Firmware; f != nil && f.Bootloader != nil && f.Bootloader.EFI != nil {
		needs.secure = ptr.Deref(f.Bootloader.EFI.SecureBoot, true)
	}
	if f := spec.Domain.Features; f != nil && f.SMM != nil {
		needs.smm = ptr.Deref(f.SMM.Enabled, true)
	}
	switch s := spec.Domain.LaunchSecurity; {
	case s == nil:
	case s.SNP != nil:
		needs.shield, needs.stateless = "amd-sev-snp", true
	case s.TDX != nil:
		needs.shield, needs.stateless = "intel-tdx", true
	case s.SEV != nil && s.SEV.Policy != nil && ptr.Deref(s.SEV.Policy.EncryptedState, false):
		needs.shield = "amd-sev-es"
	case s.SEV != nil:
		needs.shield = "amd-sev"
	}
	return needs
}

// describe names what the guest needs, for errors.
func (n firmwareNeeds) describe() string {
	kind := "EFI firmware without enrolled keys"
	if n.secure {
		kind = "EFI firmware with Secure Boot and enrolled keys"
	}
	if n.shield != "" {
		kind += " for '" + n.shield + "'"
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

// onlyFormat returns the format that the build of this start must have, with the reason; empty if any format will do. Where the VMI has a variable store
// already, the build is in the format of the store.
func (h *host) onlyFormat(stateless bool) (format, because string) {
	switch {
	case stateless: // QEMU maps the file as it is
		return raw, "encrypted memory needs one in format 'raw'; install it"
	case h.policy.PathTemplates.NVRAM != "": // nobody knows whether that file is there, and in which format
		return raw, "hostProfile.pathTemplates.nvram needs one in format 'raw'; install it"
	}
	return h.Bindings.NVRAMFormat, "the variables of the guest's firmware are in format '" + h.Bindings.NVRAMFormat +
		"'; run the VMI on a host that has a build in this format"
}

// readableBuilds returns the builds that libvirt can read, those in format raw before others, or why libvirt can read no build. With a format, other
// builds are left out.
func readableBuilds(builds []*Firmware, host Capabilities, format, because string) (readable []*Firmware, why string) {
	why = "it must be 'raw' or 'qcow2'"
	if format != "" {
		why = because
	}
	for _, wanted := range []string{raw, qcow2} {
		if format != "" && format != wanted {
			continue
		}
		for _, build := range builds {
			switch {
			case formatOf(build) != wanted:
			case wanted == qcow2 && !namesFormat.offeredBy(host):
				why = "libvirt " + host.LibvirtVersion + ", which reads it from version " + string(namesFormat) + " on; install a build in format 'raw'"
			default:
				readable = append(readable, build)
			}
		}
	}
	return readable, why
}

// matchingBuilds returns the builds, in the host's order, with exactly the features that the guest needs: with enrolled keys, a guest with
// secureBoot 'false' would not boot an unsigned loader.
func (n firmwareNeeds) matchingBuilds(host Capabilities) (builds []*Firmware) {
	for i, build := range host.Firmware {
		if build.Architecture != n.architecture || !matchesMachine(build.Machines, n.machine) {
			continue
		}
		has := func(name string) bool { return slices.Contains(build.Features, name) }
		if n.shield != "" && !has(n.shield) || n.shield == "" && build.VarsTemplate == "" {
			continue // a build without variable store is for encrypted memory only
		}
		if has("requires-smm") && !n.smm || n.secure != (has("secure-boot") && has("enrolled-keys")) {
			continue
		}
		builds = append(builds, &host.Firmware[i])
	}
	return builds
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
