package abi

import (
	"strconv"

	"github.com/kilnvm/kiln/pkg/domain/internal/attr"
	"libvirt.org/go/libvirtxml"
)

// Parts of the platform that every domain has, or most have, each with the fields that its projection in project.go keeps, in the order of
// libvirtxml. A test compares the text with the text of the projection.

func writeVCPU(out []byte, v *libvirtxml.DomainVCPU) []byte {
	if v == nil {
		return out
	}
	out = writeUint(append(out, "VCPU:{"...), "Current:", v.Current)
	return append(writeUint(out, "Value:", v.Value), "} "...)
}

func writeVCPUs(out []byte, v *libvirtxml.DomainVCPUs) []byte {
	if v == nil {
		return out
	}
	return append(writeList(append(out, "VCPUs:{"...), "VCPU:", v.VCPU, writeVCPUsVCPU), "} "...)
}

func writeVCPUsVCPU(out []byte, c *libvirtxml.DomainVCPUsVCPU) []byte {
	out = writeNumber(append(out, '{'), "Id:", c.Id)
	out = writeText(out, "Enabled:", c.Enabled)
	return append(writeText(out, "Hotpluggable:", c.Hotpluggable), '}')
}

func writeMaximumMemory(out []byte, m *libvirtxml.DomainMaxMemory) []byte {
	if m == nil {
		return out
	}
	out = writeUint(append(out, "MaximumMemory:{"...), "Value:", m.Value)
	out = writeText(out, "Unit:", m.Unit)
	return append(writeUint(out, "Slots:", m.Slots), "} "...)
}

func writeMemory(out []byte, m *libvirtxml.DomainMemory) []byte {
	if m == nil {
		return out
	}
	out = writeUint(append(out, "Memory:{"...), "Value:", m.Value)
	return append(writeText(out, "Unit:", m.Unit), "} "...)
}

// writeSysInfo appends an element of the list that projectSysInfo returns.
func writeSysInfo(out []byte, s *libvirtxml.DomainSysInfo) []byte {
	out = append(out, '{')
	if b := s.SMBIOS; b != nil {
		out = writePart(append(out, "SMBIOS:{"...), "BIOS:", b.BIOS)
		if b.System != nil {
			out = append(writeList(append(out, "System:{"...), "Entry:", b.System.Entry, writeSysInfoEntry), "} "...)
		}
		out = writeList(out, "BaseBoard:", b.BaseBoard, appendCanonicalOf)
		out = writePart(out, "Chassis:", b.Chassis)
		out = writeList(out, "Processor:", b.Processor, appendCanonicalOf)
		out = writeList(out, "Memory:", b.Memory, appendCanonicalOf)
		out = append(writePart(out, "OEMStrings:", b.OEMStrings), "} "...)
	}
	return append(writePart(out, "FWCfg:", s.FWCfg), '}')
}

func writeSysInfoEntry(out []byte, e *libvirtxml.DomainSysInfoEntry) []byte {
	out = writeText(append(out, '{'), "Name:", e.Name)
	out = writeText(out, "File:", e.File)
	return append(writeText(out, "Value:", e.Value), '}')
}

func writeOS(out []byte, o *libvirtxml.DomainOS) []byte {
	if o == nil {
		return out
	}
	out = append(out, "OS:{"...)
	if t := o.Type; t != nil {
		out = writeText(append(out, "Type:{"...), "Arch:", t.Arch)
		out = writeText(out, "Machine:", t.Machine)
		out = append(writeText(out, "Type:", t.Type), "} "...)
	}
	switch class := firmwareOf(o); {
	case class.stateless:
		out = append(writeText(append(writeText(out, "Firmware:", "efi"), "Loader:{"...), "Stateless:", "yes"), "} "...)
	case class.efi:
		out = writeText(append(writeText(out, "Firmware:", "efi"), "FirmwareInfo:{Features:[{"...), "Enabled:", attr.YesNo(class.secure))
		out = append(writeText(out, "Name:", secureBoot), "},] } "...)
	}
	out = writeText(out, "Cmdline:", o.Cmdline)
	out = writePart(out, "ACPI:", projectACPITables(o.ACPI))
	out = writeList(out, "BootDevices:", o.BootDevices, appendCanonicalOf)
	out = writePart(out, "BootMenu:", o.BootMenu)
	out = writePart(out, "BIOS:", o.BIOS)
	if o.SMBios != nil {
		out = append(writeText(append(out, "SMBios:{"...), "Mode:", o.SMBios.Mode), "} "...)
	}
	return append(out, "} "...)
}

// writeFeatures writes the features that most guests have without reflection. A Windows guest has many more, which are written by writePart.
func writeFeatures(out []byte, f *libvirtxml.DomainFeatureList) []byte {
	if f == nil || *f != (libvirtxml.DomainFeatureList{ACPI: f.ACPI, APIC: f.APIC, VMPort: f.VMPort, SMM: f.SMM}) {
		return writePart(out, "Features:", f)
	}
	out = append(out, "Features:{"...)
	if f.ACPI != nil {
		out = append(out, "ACPI:{} "...)
	}
	if f.APIC != nil {
		out = append(writeText(append(out, "APIC:{"...), "EOI:", f.APIC.EOI), "} "...)
	}
	if f.VMPort != nil {
		out = append(writeText(append(out, "VMPort:{"...), "State:", f.VMPort.State), "} "...)
	}
	if f.SMM != nil {
		out = writeText(append(out, "SMM:{"...), "State:", f.SMM.State)
		out = append(writePart(out, "TSeg:", f.SMM.TSeg), "} "...)
	}
	return append(out, "} "...)
}

func writeCPU(out []byte, c *libvirtxml.DomainCPU) []byte {
	if c == nil {
		return out
	}
	out = writeText(append(out, "CPU:{"...), "Mode:", c.Mode)
	if m := c.Model; m != nil {
		out = writeText(append(out, "Model:{"...), "Value:", m.Value)
		out = append(writeText(out, "VendorID:", m.VendorID), "} "...)
	}
	out = writeText(out, "Vendor:", c.Vendor)
	if t := c.Topology; t != nil {
		out = append(out, "Topology:{"...)
		out = writeInt(writeInt(writeInt(out, "Sockets:", t.Sockets), "Dies:", t.Dies), "Clusters:", t.Clusters)
		out = append(writeInt(writeInt(out, "Cores:", t.Cores), "Threads:", t.Threads), "} "...)
	}
	out = writePart(out, "Cache:", c.Cache)
	out = writePart(out, "MaxPhysAddr:", c.MaxPhysAddr)
	out = writeList(out, "Features:", c.Features, writeCPUFeature)
	if c.Numa != nil {
		out = writeList(append(out, "Numa:{"...), "Cell:", c.Numa.Cell, writeCell)
		out = append(writePart(out, "Interconnects:", c.Numa.Interconnects), "} "...)
	}
	return append(out, "} "...)
}

func writeCPUFeature(out []byte, f *libvirtxml.DomainCPUFeature) []byte {
	out = writeText(append(out, '{'), "Policy:", f.Policy)
	return append(writeText(out, "Name:", f.Name), '}')
}

func writeCell(out []byte, c *libvirtxml.DomainCell) []byte {
	out = writeNumber(append(out, '{'), "ID:", c.ID)
	out = writeText(out, "CPUs:", c.CPUs)
	out = writeUint(out, "Memory:", c.Memory)
	out = writeText(out, "Unit:", c.Unit)
	out = writePart(out, "Distances:", c.Distances)
	return append(writeList(out, "Caches:", c.Caches, appendCanonicalOf), '}')
}

func writeClock(out []byte, c *libvirtxml.DomainClock) []byte {
	if c == nil {
		return out
	}
	out = writeText(append(out, "Clock:{"...), "Offset:", c.Offset)
	out = writeText(out, "Basis:", c.Basis)
	out = writeText(out, "Adjustment:", c.Adjustment)
	out = writeText(out, "TimeZone:", c.TimeZone)
	out = writeUint(out, "Start:", c.Start)
	return append(writeList(out, "Timer:", c.Timer, writeTimer), "} "...)
}

func writeTimer(out []byte, t *libvirtxml.DomainTimer) []byte {
	out = writeText(append(out, '{'), "Name:", t.Name)
	out = writeText(out, "Track:", t.Track)
	out = writeText(out, "TickPolicy:", t.TickPolicy)
	out = writePart(out, "CatchUp:", t.CatchUp)
	out = writeUint(out, "Frequency:", t.Frequency)
	out = writeText(out, "Mode:", t.Mode)
	return append(writeText(out, "Present:", t.Present), '}')
}

// writeList appends a field that is a list, unless it is empty.
func writeList[T any](out []byte, field string, list []T, write func([]byte, *T) []byte) []byte {
	if len(list) == 0 {
		return out
	}
	out = append(append(out, field...), '[')
	for i := range list {
		out = append(write(out, &list[i]), ',')
	}
	return append(out, "] "...)
}

// appendCanonicalOf is appendCanonical for the elements of a list.
func appendCanonicalOf[T any](out []byte, part *T) []byte { return appendCanonical(out, part) }

// writeUint appends a field that is a number, unless it is 0.
func writeUint[T uint | uint64](out []byte, field string, n T) []byte {
	if n == 0 {
		return out
	}
	return append(strconv.AppendUint(append(out, field...), uint64(n), 10), ' ')
}

func writeInt(out []byte, field string, n int) []byte {
	if n == 0 {
		return out
	}
	return append(strconv.AppendInt(append(out, field...), int64(n), 10), ' ')
}
