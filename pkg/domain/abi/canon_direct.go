package abi

import (
	"reflect"
	"strconv"

	"libvirt.org/go/libvirtxml"
)

// The canonical text of addresses, root ports and CPUs is written without reflection, because a domain has dozens of them; that of a projection device
// by device, without a copy of the lists. The texts are the same.

// directly has these types.
var directly = []reflect.Type{
	reflect.TypeFor[libvirtxml.DomainAddress](), reflect.TypeFor[libvirtxml.DomainController](), reflect.TypeFor[libvirtxml.DomainVCPUsVCPU](),
}

// writeDirectly appends what write would append, and reports false for a value that has something unusual.
func writeDirectly(out []byte, part any) ([]byte, bool) {
	switch p := part.(type) {
	case *libvirtxml.DomainAddress:
		if onlyPCI(p) {
			return writePCI(out, p.PCI), true
		}
	case *libvirtxml.DomainController:
		if onlyPort(p) {
			return writePort(out, p), true
		}
	case *libvirtxml.DomainVCPUsVCPU:
		if *p == (libvirtxml.DomainVCPUsVCPU{Id: p.Id, Enabled: p.Enabled, Hotpluggable: p.Hotpluggable}) {
			return writeCPU(out, p), true
		}
	}
	return out, false
}

// writeSeen appends what canonical appends for the Project of a domain.
func writeSeen(out []byte, dom *libvirtxml.Domain) []byte {
	seen := platformSeen(dom)
	last := seen.LaunchSecurity // the only field of it that comes after the devices
	seen.LaunchSecurity = nil
	out = canonical(out, seen)
	out = out[:len(out)-len("}")]
	if dom.Devices != nil {
		out = append(writeDevices(append(out, "Devices:"...), dom.Devices), ' ')
	}
	if last != nil {
		out = append(canonical(append(out, "LaunchSecurity:"...), last), ' ')
	}
	return append(out, '}')
}

// writeDevices appends the projections of all lists.
func writeDevices(out []byte, l *list) []byte {
	out = append(out, '{')
	for _, p := range projections {
		next := p.seen(l)
		device := next()
		if device == nil {
			continue
		}
		out = append(append(out, p.field...), ':')
		if p.single {
			out = append(canonical(out, device), ' ')
			continue
		}
		out = append(out, '[')
		for ; device != nil; device = next() {
			out = append(canonical(out, device), ',')
		}
		out = append(out, "] "...)
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

// onlyPort reports whether writePort knows all that a controller has.
func onlyPort(c *libvirtxml.DomainController) bool {
	p := c.PCI
	return p != nil && p.Model != nil && p.Target != nil && c.Address != nil && onlyPCI(c.Address) &&
		*c == libvirtxml.DomainController{Type: c.Type, Index: c.Index, Model: c.Model, PCI: p, Address: c.Address} &&
		*p == libvirtxml.DomainControllerPCI{Model: p.Model, Target: p.Target} &&
		*p.Target == libvirtxml.DomainControllerPCITarget{Chassis: p.Target.Chassis, Port: p.Target.Port, Hotplug: p.Target.Hotplug}
}

func writePort(out []byte, c *libvirtxml.DomainController) []byte {
	out = writeText(append(out, '{'), "Type:", c.Type)
	out = writeNumber(out, "Index:", c.Index)
	out = writeText(out, "Model:", c.Model)
	out = writeText(append(out, "PCI:{Model:{"...), "Name:", c.PCI.Model.Name)
	out = writeNumber(append(out, "} Target:{"...), "Chassis:", c.PCI.Target.Chassis)
	out = writeNumber(out, "Port:", c.PCI.Target.Port)
	out = writeText(out, "Hotplug:", c.PCI.Target.Hotplug)
	out = writePCI(append(out, "} } Address:"...), c.Address.PCI)
	return append(out, " }"...)
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

// writeText appends a field that is a text, unless it is empty.
func writeText(out []byte, field, text string) []byte {
	if text == "" {
		return out
	}
	return append(writeString(append(out, field...), text), ' ')
}
