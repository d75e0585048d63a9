package abi

import (
	"reflect"
	"strconv"

	"libvirt.org/go/libvirtxml"
)

// The canonical text of what each domain has, or has dozens of, is written without reflection: addresses, aliases and CPUs here, devices in
// canon_devices.go. That of a projection is written device by device, without a copy of the lists. The texts are the same.

// directly has these types.
var directly = []reflect.Type{
	reflect.TypeFor[libvirtxml.DomainAddress](), reflect.TypeFor[libvirtxml.DomainAlias](), reflect.TypeFor[libvirtxml.DomainVCPUsVCPU](),
}

// writeDirectly appends what write would append, and reports false for a value that has something unusual.
func writeDirectly(out []byte, part any) ([]byte, bool) {
	switch p := part.(type) {
	case *libvirtxml.DomainAddress:
		if onlyPCI(p) {
			return writePCI(out, p.PCI), true
		}
	case *libvirtxml.DomainAlias:
		return writeAlias(out, p), true
	case *libvirtxml.DomainVCPUsVCPU:
		if *p == (libvirtxml.DomainVCPUsVCPU{Id: p.Id, Enabled: p.Enabled, Hotpluggable: p.Hotpluggable}) {
			return writeCPU(out, p), true
		}
	}
	return out, false
}

// writeSeen appends what canonical appends for the Project of a domain.
func writeSeen(out []byte, dom *libvirtxml.Domain) []byte {
	out = writeText(append(out, '{'), "UUID:", dom.UUID)
	out = writePart(out, "GenID:", dom.GenID)
	out = writePart(out, "MaximumMemory:", dom.MaximumMemory)
	out = writePart(out, "Memory:", memory(dom.Memory))
	out = writePart(out, "VCPU:", vcpu(dom.VCPU))
	out = writePart(out, "VCPUs:", vcpus(dom.VCPUs))
	if info := sysinfo(dom.SysInfo); len(info) > 0 {
		out = append(canonical(append(out, "SysInfo:"...), info), ' ')
	}
	out = writePart(out, "OS:", osOf(dom.OS))
	out = writePart(out, "Features:", dom.Features)
	out = writePart(out, "CPU:", cpu(dom.CPU))
	out = writePart(out, "Clock:", dom.Clock)
	if dom.Devices != nil {
		out = append(writeDevices(append(out, "Devices:"...), dom.Devices), ' ')
	}
	return append(writePart(out, "LaunchSecurity:", security(dom.LaunchSecurity)), '}')
}

// writeDevices appends the projections of all lists.
func writeDevices(out []byte, l *list) []byte {
	out = append(out, '{')
	for _, p := range projections {
		out = p.write(out, l)
	}
	return append(out, '}')
}

// onlyPCI reports whether writePCI knows all that an address has.
func onlyPCI(a *libvirtxml.DomainAddress) bool {
	p := a.PCI
	return p != nil && *a == libvirtxml.DomainAddress{PCI: p} && *p == libvirtxml.DomainAddressPCI{
		Domain: p.Domain, Bus: p.Bus, Slot: p.Slot, Function: p.Function, MultiFunction: p.MultiFunction}
}

func writePCI(out []byte, a *libvirtxml.DomainAddressPCI) []byte {
	out = append(out, "{PCI:{"...)
	out = writeNumber(out, "Domain:", a.Domain)
	out = writeNumber(out, "Bus:", a.Bus)
	out = writeNumber(out, "Slot:", a.Slot)
	out = writeNumber(out, "Function:", a.Function)
	return append(writeText(out, "MultiFunction:", a.MultiFunction), "} }"...)
}

func writeAlias(out []byte, a *libvirtxml.DomainAlias) []byte {
	return append(writeText(append(out, '{'), "Name:", a.Name), '}')
}

// writePlace appends what all devices end with: ACPI index, alias and address.
func writePlace(out []byte, acpi *libvirtxml.DomainDeviceACPI, alias *libvirtxml.DomainAlias, a *libvirtxml.DomainAddress) []byte {
	out = writePart(out, "ACPI:", acpi)
	if alias != nil {
		out = append(writeAlias(append(out, "Alias:"...), alias), ' ')
	}
	if a != nil && onlyPCI(a) {
		return append(writePCI(append(out, "Address:"...), a.PCI), ' ')
	}
	return writePart(out, "Address:", a)
}

func writeCPU(out []byte, c *libvirtxml.DomainVCPUsVCPU) []byte {
	out = writeNumber(append(out, '{'), "Id:", c.Id)
	out = writeText(out, "Enabled:", c.Enabled)
	return append(writeText(out, "Hotpluggable:", c.Hotpluggable), '}')
}

// writeNumber appends a field that is a number, unless it is not set.
func writeNumber(out []byte, field string, n *uint) []byte {
	if n == nil {
		return out
	}
	return append(strconv.AppendUint(append(out, field...), uint64(*n), 10), ' ')
}

// writePart appends a field that is a struct, unless it is not set.
func writePart[T any](out []byte, field string, part *T) []byte {
	if part == nil {
		return out
	}
	return append(canonical(append(out, field...), part), ' ')
}

// writeCopy appends a struct. It has a copy of its own, because what reflection looks at does not stay on the stack.
func writeCopy[T any](out []byte, part T) []byte { return canonical(out, &part) }

// writeText appends a field that is a text, unless it is empty.
func writeText(out []byte, field, text string) []byte {
	if text == "" {
		return out
	}
	return append(writeString(append(out, field...), text), ' ')
}
