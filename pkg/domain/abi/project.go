package abi

import (
	"slices"

	"github.com/kilnvm/kiln/pkg/domain/internal/attr"
	"libvirt.org/go/libvirtxml"
)

// Project returns the part of a domain that the guest sees. It leaves out what the backend may set (sources, host devices, tuning, paths), and what libvirt
// adds without an effect in the guest (check and match of the CPU, copies of consoles, graphics). Aliases stay, because they name devices. The result shares
// no list of devices with the given domain.
//
// It follows libvirt's ABI check (virDomainDefCheckABIStability), which runs before a changed definition of a running domain is accepted.
func Project(dom *libvirtxml.Domain) *libvirtxml.Domain {
	dom = oneBoot(dom)
	out := projectPlatform(dom)
	out.Devices = projectDevices(dom.Devices)
	return out
}

// projectPlatform projects everything but devices.
func projectPlatform(dom *libvirtxml.Domain) *libvirtxml.Domain {
	return &libvirtxml.Domain{
		UUID:           dom.UUID,
		GenID:          dom.GenID,
		MaximumMemory:  dom.MaximumMemory,
		Memory:         projectMemory(dom.Memory),
		VCPU:           projectVCPU(dom.VCPU),
		VCPUs:          projectVCPUs(dom.VCPUs),
		SysInfo:        projectSysInfo(dom.SysInfo),
		OS:             projectOS(dom.OS),
		Features:       dom.Features,
		CPU:            projectCPU(dom.CPU),
		Clock:          dom.Clock,
		PM:             projectPM(dom.PM),
		LaunchSecurity: projectSecurity(dom.LaunchSecurity),
	}
}

// samePlatform compares what platformSeen keeps of two domains. It projects only what the two do not share.
func samePlatform(a, b *libvirtxml.Domain) bool {
	return a.UUID == b.UUID && sameText(a.GenID, b.GenID) && sameText(a.MaximumMemory, b.MaximumMemory) && sameParts(a.Memory, b.Memory, projectMemory) &&
		sameParts(a.VCPU, b.VCPU, projectVCPU) && sameSeen(a.VCPUs, b.VCPUs, projectVCPUs) && sameSysInfo(projectSysInfo(a.SysInfo), projectSysInfo(b.SysInfo)) &&
		sameOS(a.OS, b.OS) && sameText(a.Features, b.Features) && sameSeen(a.CPU, b.CPU, projectCPU) && sameText(a.Clock, b.Clock) &&
		sameSeen(a.PM, b.PM, projectPM) &&
		sameSeen(a.LaunchSecurity, b.LaunchSecurity, projectSecurity)
}

// projectSysInfo keeps the names of fw_cfg files. Their content is no hardware, and their path is the host's.
func projectSysInfo(list []libvirtxml.DomainSysInfo) []libvirtxml.DomainSysInfo {
	if !slices.ContainsFunc(list, func(s libvirtxml.DomainSysInfo) bool { return s.FWCfg != nil }) {
		return list
	}
	out := slices.Clone(list)
	for i := range out {
		if out[i].FWCfg == nil {
			continue
		}
		names := slices.Clone(out[i].FWCfg.Entry)
		for j := range names {
			names[j] = libvirtxml.DomainSysInfoEntry{Name: names[j].Name}
		}
		out[i].FWCfg = &libvirtxml.DomainSysInfoFWCfg{Entry: names}
	}
	return out
}

func sameSysInfo(a, b []libvirtxml.DomainSysInfo) bool {
	return equalParts(a, b, keepAll) || sameProjected(a, b, keepAll)
}

// projectMemory drops dumpCore.
func projectMemory(m *libvirtxml.DomainMemory) *libvirtxml.DomainMemory {
	if m == nil || m.DumpCore == "" {
		return m
	}
	return &libvirtxml.DomainMemory{Value: m.Value, Unit: m.Unit}
}

// projectVCPU drops the cpuset and the placement.
func projectVCPU(v *libvirtxml.DomainVCPU) *libvirtxml.DomainVCPU {
	if v == nil {
		return nil
	}
	return &libvirtxml.DomainVCPU{Value: v.Value, Current: v.Current}
}

// projectVCPUs drops the order in which CPUs were hot-plugged: libvirt adds it to a running domain.
func projectVCPUs(v *libvirtxml.DomainVCPUs) *libvirtxml.DomainVCPUs {
	if v == nil || !slices.ContainsFunc(v.VCPU, func(c libvirtxml.DomainVCPUsVCPU) bool { return c.Order != nil }) {
		return v // no frontend has an order
	}
	out := &libvirtxml.DomainVCPUs{VCPU: slices.Clone(v.VCPU)}
	for i := range out.VCPU {
		out.VCPU[i].Order = nil
	}
	return out
}

// projectOS drops the paths of loader, variable store, kernel and tables: the guest sees that they exist, but not where.
func projectOS(o *libvirtxml.DomainOS) *libvirtxml.DomainOS {
	if o == nil {
		return nil
	}
	out := &libvirtxml.DomainOS{
		Type: o.Type, Cmdline: o.Cmdline, BootDevices: o.BootDevices, BootMenu: o.BootMenu, BIOS: o.BIOS, SMBios: o.SMBios,
	}
	switch class := firmwareOf(o); {
	case class.stateless:
		out.Firmware, out.Loader = "efi", &libvirtxml.DomainLoader{Stateless: "yes"}
	case class.efi:
		secure := libvirtxml.DomainOSFirmwareFeature{Enabled: attr.YesNo(class.secure), Name: secureBoot}
		out.Firmware, out.FirmwareInfo = "efi", &libvirtxml.DomainOSFirmwareInfo{Features: []libvirtxml.DomainOSFirmwareFeature{secure}}
	}
	out.ACPI = projectACPITables(o.ACPI)
	return out
}

// sameOS compares what osOf keeps.
func sameOS(a, b *libvirtxml.DomainOS) bool {
	if a == nil || b == nil || a == b {
		return a == b
	}
	return sameText(a.Type, b.Type) && firmwareOf(a) == firmwareOf(b) && a.Cmdline == b.Cmdline && sameSeen(a.ACPI, b.ACPI, projectACPITables) &&
		sameProjected(a.BootDevices, b.BootDevices, keepAll) && sameText(a.BootMenu, b.BootMenu) && sameText(a.BIOS, b.BIOS) && sameText(a.SMBios, b.SMBios)
}

// projectACPITables drops the paths of the host.
func projectACPITables(a *libvirtxml.DomainACPI) *libvirtxml.DomainACPI {
	if a == nil {
		return nil
	}
	out := &libvirtxml.DomainACPI{}
	for _, table := range a.Tables {
		out.Tables = append(out.Tables, libvirtxml.DomainACPITable{Type: table.Type})
	}
	return out
}

// firmwareClass is what the guest sees of its firmware. Without EFI it is the zero value.
type firmwareClass struct {
	efi bool
	// stateless builds have no attribute for enrolled keys, and secure is unset. The owner of an encrypted guest measures the firmware.
	stateless bool
	// secure means that Secure Boot is on.
	secure bool
}

// secureBoot is libvirt's name of the firmware's feature.
const secureBoot = "secure-boot"

// firmwareOf returns the class. The frontend has firmware='efi' with features, the backend the path of a build: both mean the same class.
func firmwareOf(o *libvirtxml.DomainOS) firmwareClass {
	loader := o.Loader != nil && (o.Loader.Type == "pflash" || o.Loader.Type == "rom")
	switch {
	case o.Firmware != "efi" && !loader:
		return firmwareClass{}
	case o.Loader != nil && o.Loader.Stateless == "yes":
		return firmwareClass{efi: true, stateless: true}
	}
	secure := loader && o.Loader.Secure == "yes"
	if o.FirmwareInfo != nil {
		for _, f := range o.FirmwareInfo.Features {
			secure = secure || f.Name == secureBoot && f.Enabled == "yes"
		}
	}
	return firmwareClass{efi: true, secure: secure}
}

// projectCPU drops check, match, fallback and migratable, which libvirt fills in at the start.
func projectCPU(c *libvirtxml.DomainCPU) *libvirtxml.DomainCPU {
	if c == nil {
		return nil
	}
	out := &libvirtxml.DomainCPU{Mode: c.Mode, Vendor: c.Vendor, Topology: c.Topology, Cache: c.Cache, MaxPhysAddr: c.MaxPhysAddr, Features: c.Features}
	if c.Model != nil {
		out.Model = &libvirtxml.DomainCPUModel{Value: c.Model.Value, VendorID: c.Model.VendorID}
	}
	if c.Numa != nil {
		out.Numa = &libvirtxml.DomainNuma{Interconnects: c.Numa.Interconnects}
		for _, cell := range c.Numa.Cell {
			// The guest does not see whether its memory is shared with a process of the host.
			cell.MemAccess, cell.Discard = "", ""
			out.Numa.Cell = append(out.Numa.Cell, cell)
		}
	}
	return out
}

// projectPM keeps the sleep states that the firmware does not offer. It offers both by default.
func projectPM(p *libvirtxml.DomainPM) *libvirtxml.DomainPM {
	if p == nil {
		return nil
	}
	unlessOffered := func(state *libvirtxml.DomainPMPolicy) *libvirtxml.DomainPMPolicy {
		if state == nil || state.Enabled != "no" {
			return nil
		}
		return state
	}
	return attr.UnlessEmpty(libvirtxml.DomainPM{SuspendToMem: unlessOffered(p.SuspendToMem), SuspendToDisk: unlessOffered(p.SuspendToDisk)})
}

// projectSecurity drops the C-bit's position and the reduced address bits, which the host's processor has, and the path of the quoting service.
func projectSecurity(s *libvirtxml.DomainLaunchSecurity) *libvirtxml.DomainLaunchSecurity {
	if s == nil {
		return nil
	}
	out := *s
	if s.SEV != nil {
		sev := *s.SEV
		sev.CBitPos, sev.ReducedPhysBits = nil, nil
		out.SEV = &sev
	}
	if s.SEVSNP != nil {
		snp := *s.SEVSNP
		snp.CBitPos, snp.ReducedPhysBits = nil, nil
		out.SEVSNP = &snp
	}
	if s.TDX != nil {
		tdx := *s.TDX
		tdx.QuoteGenerationService = nil
		out.TDX = &tdx
	}
	return &out
}
