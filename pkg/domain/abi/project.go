package abi

import (
	"slices"

	"libvirt.org/go/libvirtxml"
)

// Project is what the guest sees of a domain: a partial domain that shares no list of devices with the given one. Whatever the
// backend may set is left out (sources, host devices, tuning, paths), and so is what libvirt writes on its own without the
// guest noticing (CPU check and match, console copies, graphics). It keeps aliases, to name devices.
//
// It is the mirror of what libvirt compares before it accepts a changed domain for a running guest.
func Project(dom *libvirtxml.Domain) *libvirtxml.Domain {
	out := platformSeen(dom)
	out.Devices = devices(dom.Devices)
	return out
}

// platformSeen is the projection without devices.
func platformSeen(dom *libvirtxml.Domain) *libvirtxml.Domain {
	return &libvirtxml.Domain{
		UUID:           dom.UUID,
		GenID:          dom.GenID,
		MaximumMemory:  dom.MaximumMemory,
		Memory:         memory(dom.Memory),
		VCPU:           vcpu(dom.VCPU),
		VCPUs:          vcpus(dom.VCPUs),
		SysInfo:        sysinfo(dom.SysInfo),
		OS:             osOf(dom.OS),
		Features:       dom.Features,
		CPU:            cpu(dom.CPU),
		Clock:          dom.Clock,
		LaunchSecurity: security(dom.LaunchSecurity),
	}
}

// sysinfo keeps the names of the files that firmware hands on. What they hold is no hardware, and where they lie is the host's.
func sysinfo(list []libvirtxml.DomainSysInfo) []libvirtxml.DomainSysInfo {
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

// memory leaves out whether it is part of a dump of QEMU.
func memory(m *libvirtxml.DomainMemory) *libvirtxml.DomainMemory {
	if m == nil {
		return nil
	}
	return &libvirtxml.DomainMemory{Value: m.Value, Unit: m.Unit}
}

func vcpu(v *libvirtxml.DomainVCPU) *libvirtxml.DomainVCPU {
	if v == nil {
		return nil
	}
	return &libvirtxml.DomainVCPU{Value: v.Value, Current: v.Current}
}

// vcpus leaves out the order in which a running guest got its CPUs.
func vcpus(v *libvirtxml.DomainVCPUs) *libvirtxml.DomainVCPUs {
	if v == nil || !slices.ContainsFunc(v.VCPU, func(c libvirtxml.DomainVCPUsVCPU) bool { return c.Order != nil }) {
		return v // a frontend's never have one
	}
	out := &libvirtxml.DomainVCPUs{VCPU: slices.Clone(v.VCPU)}
	for i := range out.VCPU {
		out.VCPU[i].Order = nil
	}
	return out
}

// osOf leaves out the paths of loader, variable store, kernel and tables: that they exist is the guest's, where is the host's.
func osOf(o *libvirtxml.DomainOS) *libvirtxml.DomainOS {
	if o == nil {
		return nil
	}
	out := &libvirtxml.DomainOS{
		Type: o.Type, Cmdline: o.Cmdline, BootDevices: o.BootDevices, BootMenu: o.BootMenu, BIOS: o.BIOS, SMBios: o.SMBios,
	}
	firmware(o, out)
	if o.ACPI != nil {
		out.ACPI = &libvirtxml.DomainACPI{}
		for _, table := range o.ACPI.Tables {
			out.ACPI.Tables = append(out.ACPI.Tables, libvirtxml.DomainACPITable{Type: table.Type})
		}
	}
	return out
}

// firmware is the class alone: EFI by class (frontend) and EFI by the path of a build (backend) are two spellings of it.
func firmware(o, out *libvirtxml.DomainOS) {
	loader := o.Loader != nil && (o.Loader.Type == "pflash" || o.Loader.Type == "rom")
	if o.Firmware != "efi" && !loader {
		return
	}
	out.Firmware = "efi"
	// A path has no word for the keys in firmware without variables, which the owner of an encrypted guest measures anyway.
	if o.Loader != nil && o.Loader.Stateless == "yes" {
		out.Loader = &libvirtxml.DomainLoader{Stateless: "yes"}
		return
	}
	secure := "no"
	if loader && o.Loader.Secure == "yes" {
		secure = "yes"
	}
	if o.FirmwareInfo != nil {
		for _, f := range o.FirmwareInfo.Features {
			if f.Name == "secure-boot" && f.Enabled == "yes" {
				secure = "yes"
			}
		}
	}
	out.FirmwareInfo = &libvirtxml.DomainOSFirmwareInfo{Features: []libvirtxml.DomainOSFirmwareFeature{{Enabled: secure, Name: "secure-boot"}}}
}

func cpu(c *libvirtxml.DomainCPU) *libvirtxml.DomainCPU {
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
			// Whether the memory is shared with a daemon of the host is not seen inside.
			cell.MemAccess, cell.Discard = "", ""
			out.Numa.Cell = append(out.Numa.Cell, cell)
		}
	}
	return out
}

// security leaves out what the host's processor and its quoting service say.
func security(s *libvirtxml.DomainLaunchSecurity) *libvirtxml.DomainLaunchSecurity {
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
