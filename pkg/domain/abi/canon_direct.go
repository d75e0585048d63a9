package abi

import (
	"reflect"
	"strconv"

	"libvirt.org/go/libvirtxml"
)

// The canonical text of what each domain has, or has dozens of, is written without reflection: addresses and aliases here, devices in
// canon_devices.go, the platform in canon_platform.go. The text of a projection is written device by device, without a copy of the lists. Both ways give the
// same text.

// directly has these types.
var directly = []reflect.Type{reflect.TypeFor[libvirtxml.DomainAddress](), reflect.TypeFor[libvirtxml.DomainAlias]()}

// writeDirectly appends what appendValue would append. It returns false for a value with an unusual field.
func writeDirectly(out []byte, part any) ([]byte, bool) {
	switch p := part.(type) {
	case *libvirtxml.DomainAddress:
		return writeAddress(out, p)
	case *libvirtxml.DomainAlias:
		return writeAlias(out, p), true
	}
	return out, false
}

// writeSeen appends the canonical text of the Project of a domain.
func writeSeen(out []byte, dom *libvirtxml.Domain) []byte {
	out = writeText(append(out, '{'), "UUID:", dom.UUID)
	out = writePart(out, "GenID:", dom.GenID)
	out = writeMaximumMemory(out, dom.MaximumMemory)
	out = writeMemory(out, dom.Memory)
	out = writeVCPU(out, dom.VCPU)
	out = writeVCPUs(out, dom.VCPUs)
	out = writeList(out, "SysInfo:", projectSysInfo(dom.SysInfo), writeSysInfo)
	out = writeOS(out, dom.OS)
	out = writeFeatures(out, dom.Features)
	out = writeCPU(out, dom.CPU)
	out = writeClock(out, dom.Clock)
	out = writePart(out, "PM:", projectPM(dom.PM))
	if dom.Devices != nil {
		out = append(writeDevices(append(out, "Devices:"...), dom.Devices), ' ')
	}
	return append(writePart(out, "LaunchSecurity:", projectSecurity(dom.LaunchSecurity)), '}')
}

// writeDevices appends the projections of all lists.
func writeDevices(out []byte, l *list) []byte {
	out = append(out, '{')
	for _, p := range projections {
		out = p.write(out, l)
	}
	return append(out, '}')
}

// writeAddress appends an address of one of the kinds that most devices have, and reports false for others.
func writeAddress(out []byte, a *libvirtxml.DomainAddress) ([]byte, bool) {
	switch *a {
	case libvirtxml.DomainAddress{PCI: a.PCI}:
		if p := a.PCI; p != nil {
			return append(writePCI(append(out, "{PCI:{"...), p), "} }"...), true
		}
	case libvirtxml.DomainAddress{VirtioSerial: a.VirtioSerial}:
		out = writeNumber(append(out, "{VirtioSerial:{"...), "Controller:", a.VirtioSerial.Controller)
		out = writeNumber(out, "Bus:", a.VirtioSerial.Bus)
		return append(writeNumber(out, "Port:", a.VirtioSerial.Port), "} }"...), true
	case libvirtxml.DomainAddress{Drive: a.Drive}:
		out = writeNumber(append(out, "{Drive:{"...), "Controller:", a.Drive.Controller)
		out = writeNumber(out, "Bus:", a.Drive.Bus)
		out = writeNumber(out, "Target:", a.Drive.Target)
		return append(writeNumber(out, "Unit:", a.Drive.Unit), "} }"...), true
	case libvirtxml.DomainAddress{USB: a.USB}:
		out = writeNumber(append(out, "{USB:{"...), "Bus:", a.USB.Bus)
		out = writeText(out, "Port:", a.USB.Port)
		return append(writeNumber(out, "Device:", a.USB.Device), "} }"...), true
	}
	return out, false
}

func writePCI(out []byte, a *libvirtxml.DomainAddressPCI) []byte {
	out = writeNumber(out, "Domain:", a.Domain)
	out = writeNumber(out, "Bus:", a.Bus)
	out = writeNumber(out, "Slot:", a.Slot)
	out = writeNumber(out, "Function:", a.Function)
	out = writeText(out, "MultiFunction:", a.MultiFunction)
	return writePart(out, "ZPCI:", a.ZPCI)
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
	if a == nil {
		return out
	}
	out = append(out, "Address:"...)
	if written, ok := writeAddress(out, a); ok {
		return append(written, ' ')
	}
	return append(appendCanonical(out, a), ' ')
}

// writeBoot appends the place of a device in the order in which the firmware tries them.
func writeBoot(out []byte, b *libvirtxml.DomainDeviceBoot) []byte {
	if b == nil {
		return out
	}
	out = writeUint(append(out, "Boot:{"...), "Order:", b.Order)
	return append(writeText(out, "LoadParm:", b.LoadParm), "} "...)
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
	return append(appendCanonical(append(out, field...), part), ' ')
}

// writeCopy appends a struct. It has a copy of its own, because what reflection looks at does not stay on the stack.
func writeCopy[T any](out []byte, part T) []byte { return appendCanonical(out, &part) }

// writeText appends a field that is a text, unless it is empty.
func writeText(out []byte, field, text string) []byte {
	if text == "" {
		return out
	}
	return append(writeString(append(out, field...), text), ' ')
}
