package frontend

import (
	"cmp"
	"slices"

	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/domain/abi"
	"github.com/kilnvm/kiln/pkg/domain/internal/attr"
	"github.com/kilnvm/kiln/pkg/identity"
	"github.com/kilnvm/kiln/pkg/record"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	v1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"
)

// Owns spec.domain.firmware, spec.domain.chassis, spec.startStrategy and the Ignition annotation: UUID, DMI strings, generation ID, class
// of firmware, kernel arguments and ACPI tables. The backend finds the firmware build on the host.
// KubeVirt: converter/compute/{os,sysinfo,qemu_cmd}.go. libvirt: "Operating system booting" and "SMBIOS System Information".

// systemUUID returns firmware.uuid, else the recorded one. KubeVirt writes it into sysinfo only, and libvirt adopts it.
func (g *guest) systemUUID() string {
	switch f := g.spec.Domain.Firmware; {
	case f != nil && f.UUID != "":
		return string(f.UUID)
	case g.Frozen != nil && g.Frozen.UUID != "":
		return g.Frozen.UUID
	}
	g.addError(field.Required(g.path.Child("firmware", "uuid"), ""))
	return ""
}

// renderGenID renders the VM Generation ID device, by which a guest detects that it was restored or cloned. The record keeps whether the device
// exists; the ID is always the current one. Encrypted guests have none, because the host cannot write to their memory, and neither has
// machine type pc-q35-2.4, which lacks the means.
func (g *guest) renderGenID() *libvirtxml.DomainGenID {
	wanted := g.Defaults.GenerationID
	if g.Frozen != nil {
		wanted = g.Frozen.GenerationID
	}
	f := g.spec.Domain.Features
	acpi := f != nil && (f.ACPI.Enabled == nil || *f.ACPI.Enabled)
	machine := g.spec.Domain.Machine
	if !wanted || g.Generation == "" || !g.arch.generation || !acpi || g.spec.Domain.LaunchSecurity != nil || machine == nil || machine.Type == "pc-q35-2.4" {
		return nil
	}
	return &libvirtxml.DomainGenID{Value: g.Generation}
}

func (g *guest) renderOS() *libvirtxml.DomainOS {
	out := &libvirtxml.DomainOS{Type: g.osType(), ACPI: g.acpiTables()}
	if g.hasSystemStrings() {
		out.SMBios = &libvirtxml.DomainSMBios{Mode: "sysinfo"}
	}
	if f := g.spec.Domain.Firmware; f != nil && f.KernelBoot != nil {
		out.Cmdline = f.KernelBoot.KernelArgs
	}
	// As in KubeVirt, a VMI that starts paused shows the boot menu after it is resumed, for 10000 ms.
	if s := g.spec.StartStrategy; s != nil && *s == v1.StartStrategyPaused {
		out.BootMenu = &libvirtxml.DomainBootMenu{Enable: "yes", Timeout: "10000"}
	}
	// libvirt writes this itself if no device has a boot order. It means the first disk, see bootRecordedDisk.
	if !g.hasBootOrder() {
		out.BootDevices = []libvirtxml.DomainBootDevice{{Dev: "hd"}}
	}
	g.setLoader(out)
	return out
}

// hasBootOrder reports whether a device has bootOrder. libvirt refuses <boot dev> beside it.
func (g *guest) hasBootOrder() bool {
	return slices.ContainsFunc(g.dev.Disks, func(d v1.Disk) bool { return d.BootOrder != nil }) ||
		slices.ContainsFunc(g.dev.Interfaces, func(i v1.Interface) bool { return i.BootOrder != nil && i.State != v1.InterfaceStateAbsent })
}

// bootRecordedDisk has the firmware boot the disk of the record, if no device has bootOrder: after an edit of the list of disks, another one may be the
// first. KubeVirt then boots that one.
func (g *guest) bootRecordedDisk(dom *libvirtxml.Domain) {
	if g.Frozen != nil && g.Frozen.BootDisk != "" && !g.hasBootOrder() {
		abi.BootFrom(dom, g.Frozen.BootDisk)
	}
}

// setLoader sets the class of firmware, and of the build the name of its file without the path, which differs between hosts. efi.secureBoot is true if it is
// absent, as the API documents. enrolled-keys follows it, as in KubeVirt's autoselection.
func (g *guest) setLoader(out *libvirtxml.DomainOS) {
	var boot v1.Bootloader
	if f := g.spec.Domain.Firmware; f != nil && f.Bootloader != nil {
		boot = *f.Bootloader
	}
	switch {
	case boot.EFI != nil && !g.arch.efi:
		g.addError(field.Forbidden(g.path.Child("firmware", "bootloader", "efi"), "architecture 's390x' has no EFI"))
	case boot.EFI != nil:
		secure := attr.YesNo(boot.EFI.SecureBoot == nil || *boot.EFI.SecureBoot)
		out.Firmware = "efi"
		out.FirmwareInfo = &libvirtxml.DomainOSFirmwareInfo{Features: []libvirtxml.DomainOSFirmwareFeature{
			{Enabled: secure, Name: "secure-boot"}, {Enabled: secure, Name: "enrolled-keys"},
		}}
		if build := g.firmwareBuild(); build != "" {
			out.Loader = &libvirtxml.DomainLoader{Path: build}
		}
		// SNP and TDX measure the firmware at the start; their builds have no variable store, as in KubeVirt.
		if s := g.spec.Domain.LaunchSecurity; s != nil && (s.SNP != nil || s.TDX != nil) {
			out.Loader = cmp.Or(out.Loader, &libvirtxml.DomainLoader{})
			out.Loader.Stateless = "yes"
		}
	case g.spec.Architecture == "arm64":
		g.addError(field.Required(g.path.Child("firmware", "bootloader", "efi"), "architecture 'arm64' boots through EFI only"))
	case boot.BIOS != nil && ptr.Deref(boot.BIOS.UseSerial, false):
		out.BIOS = &libvirtxml.DomainBIOS{UseSerial: "yes"}
	}
}

// firmwareBuild returns the file name of the recorded build, or of the build that the host prefers if it cannot start the guest with the recorded one. It is
// empty if neither is known: the backend then chooses, and the record keeps no build.
func (g *guest) firmwareBuild() string {
	recorded := ""
	if g.Frozen != nil && g.Frozen.Firmware != record.NoFirmware && g.recordsThisBoard() {
		recorded = g.Frozen.Firmware
	}
	if host := g.Facts.Firmware; len(host) > 0 && !slices.Contains(host, recorded) {
		return host[0]
	}
	return recorded
}

// acpiTables returns SLIC and MSDM, the tables with Windows licences. They have no path here; the backend knows the files.
func (g *guest) acpiTables() *libvirtxml.DomainACPI {
	f := g.spec.Domain.Firmware
	if f == nil || f.ACPI == nil {
		return nil
	}
	path := g.path.Child("firmware", "acpi")
	out := &libvirtxml.DomainACPI{}
	add := func(kind, volume string, path *field.Path) {
		if volume == "" {
			return
		}
		if v := g.volumes[volume]; v == nil || v.Secret == nil {
			g.addError(field.Invalid(path, volume, "must name a volume of type secret"))
		}
		out.Tables = append(out.Tables, libvirtxml.DomainACPITable{Type: kind})
	}
	add("slic", f.ACPI.SlicNameRef, path.Child("slicNameRef"))
	add("msdm", f.ACPI.MsdmNameRef, path.Child("msdmNameRef"))
	if len(out.Tables) == 0 {
		return nil
	}
	return out
}

// renderSysInfo returns the DMI strings and Ignition's file. KubeVirt passes the file by <qemu:commandline>, which libvirt does not check.
func (g *guest) renderSysInfo() (out []libvirtxml.DomainSysInfo) {
	if g.hasSystemStrings() {
		out = append(out, libvirtxml.DomainSysInfo{SMBIOS: g.dmiStrings()})
	}
	if g.VMI.Annotations[v1.IgnitionAnnotation] == "" {
		return out
	}
	if !g.arch.fwcfg {
		path := field.NewPath("metadata", "annotations").Key(v1.IgnitionAnnotation)
		g.addError(field.Forbidden(path, "architecture '"+g.spec.Architecture+"' has no fw_cfg device; remove the annotation"))
	}
	// Only the file's name is guest hardware. The content stays out of the record, because it may hold a password.
	entry := libvirtxml.DomainSysInfoEntry{Name: abi.Ignition}
	return append(out, libvirtxml.DomainSysInfo{FWCfg: &libvirtxml.DomainSysInfoFWCfg{Entry: []libvirtxml.DomainSysInfoEntry{entry}}})
}

// hasSystemStrings reports whether strings of the DMI table are written. Without them QEMU writes the UUID and its own strings. The record can omit them unless
// the owner or the record has one. Trap: the controller writes a serial into each VMI, which is no wish of the owner.
func (g *guest) hasSystemStrings() bool {
	if !g.arch.smbios || !record.Omits(g.Frozen, record.OmittedSMBIOS) {
		return g.arch.smbios
	}
	return g.spec.Domain.Chassis != nil || len(g.Frozen.SMBIOS)+len(g.Frozen.BIOS) > 0 || g.Frozen.Serial != "" || !identity.HasDerivedSerial(g.VMI)
}

// dmiStrings returns the DMI strings. Strings that no field of the API governs are recorded at the first boot. KubeVirt reads them from the cluster's
// configuration at each start, so that an edit there changes every guest.
func (g *guest) dmiStrings() *libvirtxml.DomainSysInfoSMBIOS {
	system := &libvirtxml.DomainSysInfoSystem{}
	smbios := g.smbiosDefaults()
	serial := ""
	if f := g.spec.Domain.Firmware; f != nil {
		serial = f.Serial
	}
	if serial == "" && g.Frozen != nil {
		serial = g.Frozen.Serial
	}
	system.Entry = sysInfoEntries("manufacturer", smbios.Manufacturer, "product", smbios.Product, "version", smbios.Version,
		"serial", serial, "uuid", g.knownUUID(), "sku", smbios.SKU, "family", smbios.Family)
	info := &libvirtxml.DomainSysInfoSMBIOS{System: system}
	if list := g.biosStrings(); len(list) > 0 {
		info.BIOS = &libvirtxml.DomainSysInfoBIOS{Entry: list}
	}
	if c := g.spec.Domain.Chassis; c != nil {
		list := sysInfoEntries("manufacturer", c.Manufacturer, "version", c.Version, "serial", c.Serial, "asset", c.Asset, "sku", c.Sku)
		if len(list) > 0 {
			info.Chassis = &libvirtxml.DomainSysInfoChassis{Entry: list}
		}
	}
	return info
}

// biosStrings returns the strings of the BIOS. A guest keeps the strings of its first boot, because the strings of the firmware contain the version of its
// package. EFI firmware writes its own strings, because libvirt cannot say in this part of the table that the firmware is EFI.
func (g *guest) biosStrings() []libvirtxml.DomainSysInfoEntry {
	f := g.spec.Domain.Firmware
	efi := f != nil && f.Bootloader != nil && f.Bootloader.EFI != nil
	switch r := g.Frozen; {
	case r == nil && efi:
		return nil
	case r != nil && r.Firmware != "" && efi == (r.Firmware == record.NoFirmware): // the strings are of the other firmware, which the guest had before
		return nil
	case r != nil && len(r.BIOS) == 0:
		return nil
	case r != nil:
		return sysInfoEntries("vendor", r.BIOS["vendor"], "version", r.BIOS["version"], "date", r.BIOS["date"], "release", r.BIOS["release"])
	}
	b := g.Defaults.BIOS
	return sysInfoEntries("vendor", b.Vendor, "version", b.Version, "date", b.Date)
}

func (g *guest) smbiosDefaults() config.SMBIOS {
	if g.Frozen == nil {
		return g.Defaults.SMBIOS
	}
	r := g.Frozen.SMBIOS
	return config.SMBIOS{Manufacturer: r["manufacturer"], Product: r["product"], Version: r["version"], SKU: r["sku"], Family: r["family"]}
}

// knownUUID returns systemUUID without its error.
func (g *guest) knownUUID() string {
	if f := g.spec.Domain.Firmware; f != nil && f.UUID != "" {
		return string(f.UUID)
	}
	if g.Frozen != nil {
		return g.Frozen.UUID
	}
	return ""
}

// sysInfoEntries pairs names and values and leaves out empty values: QEMU then uses its own, which come with the machine type.
func sysInfoEntries(pairs ...string) []libvirtxml.DomainSysInfoEntry {
	out := make([]libvirtxml.DomainSysInfoEntry, 0, len(pairs)/2)
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			out = append(out, libvirtxml.DomainSysInfoEntry{Name: pairs[i], Value: pairs[i+1]})
		}
	}
	return out
}
