package abi

import (
	"slices"

	"libvirt.org/go/libvirtxml"
)

// Devices that are written without reflection, each with the fields that its projection in devices.go keeps, in the order of libvirtxml. A test
// compares the text with the text of the projection.

// writers are the functions for the devices that most domains have.
var writers = []any{writeDisk, writeController, writeNIC, writeSerial, writeChannel, writeInput, writeVideo, writeRNG}

// writerOf returns the function that appends the projection of a device.
func writerOf[T any](of func(T) T) func(out []byte, device *T) []byte {
	is := func(w any) bool { _, ok := w.(func([]byte, *T) []byte); return ok }
	if i := slices.IndexFunc(writers, is); i >= 0 {
		return writers[i].(func([]byte, *T) []byte)
	}
	return func(out []byte, device *T) []byte { return writeCopy(out, of(*device)) }
}

func writeDisk(out []byte, d *libvirtxml.DomainDisk) []byte {
	out = writeText(append(out, '{'), "Device:", d.Device)
	out = writeText(out, "Model:", d.Model)
	out = writePart(out, "Driver:", projectDiskDriver(d.Driver))
	out = writePart(out, "BlockIO:", d.BlockIO)
	if t := d.Target; t != nil && *t == (libvirtxml.DomainDiskTarget{Dev: t.Dev, Bus: t.Bus}) {
		out = writeText(append(out, "Target:{"...), "Dev:", t.Dev)
		out = append(writeText(out, "Bus:", t.Bus), "} "...)
	} else {
		out = writePart(out, "Target:", t)
	}
	out = writePart(out, "ReadOnly:", d.ReadOnly)
	out = writePart(out, "Shareable:", d.Shareable)
	out = writeText(out, "Serial:", d.Serial)
	out = writeText(out, "WWN:", d.WWN)
	out = writeText(out, "Vendor:", d.Vendor)
	out = writeText(out, "Product:", d.Product)
	out = writeBoot(out, d.Boot)
	return append(writePlace(out, d.ACPI, d.Alias, d.Address), '}')
}

func writeNIC(out []byte, n *libvirtxml.DomainInterface) []byte {
	out = append(out, '{')
	if n.MAC != nil && *n.MAC == (libvirtxml.DomainInterfaceMAC{Address: n.MAC.Address}) {
		out = append(writeText(append(out, "MAC:{"...), "Address:", n.MAC.Address), "} "...)
	} else {
		out = writePart(out, "MAC:", n.MAC)
	}
	out = append(out, "Source:{Null:{} } "...) // unconnected
	out = writeBoot(out, n.Boot)
	if n.Model != nil {
		out = append(writeText(append(out, "Model:{"...), "Type:", n.Model.Type), "} "...)
	}
	if n.Driver != nil {
		out = writePart(out, "Driver:", seenOf(n.Driver, projectNICDriver(n.Driver)))
	}
	out = writePart(out, "Link:", n.Link)
	out = writePart(out, "ROM:", n.ROM)
	return append(writePlace(out, n.ACPI, n.Alias, n.Address), '}')
}

func writeSerial(out []byte, device *libvirtxml.DomainSerial) []byte {
	s := projectSerial(*device)
	out = append(out, '{')
	if t := s.Target; t != nil {
		out = writeNumber(writeText(append(out, "Target:{"...), "Type:", t.Type), "Port:", t.Port)
		if t.Model != nil {
			out = append(writeText(append(out, "Model:{"...), "Name:", t.Model.Name), "} "...)
		}
		out = append(out, "} "...)
	}
	return append(writePlace(out, s.ACPI, s.Alias, s.Address), '}')
}

func writeChannel(out []byte, device *libvirtxml.DomainChannel) []byte {
	c := projectChannel(*device)
	out = append(out, '{')
	if c.Target != nil {
		out = append(writeText(append(out, "Target:{VirtIO:{"...), "Name:", c.Target.VirtIO.Name), "} } "...)
	}
	return append(writePlace(out, c.ACPI, c.Alias, c.Address), '}')
}

func writeInput(out []byte, device *libvirtxml.DomainInput) []byte {
	out = writeText(append(out, '{'), "Type:", device.Type)
	out = writeText(out, "Bus:", device.Bus)
	out = writeText(out, "Model:", device.Model)
	out = writePart(out, "Driver:", device.Driver)
	return append(writePlace(out, device.ACPI, device.Alias, device.Address), '}')
}

func writeVideo(out []byte, device *libvirtxml.DomainVideo) []byte {
	out = append(out, '{')
	if m := device.Model; m != (libvirtxml.DomainVideoModel{}) {
		out = writeText(append(out, "Model:{"...), "Type:", m.Type)
		out = writeUint(writeUint(writeUint(out, "Heads:", m.Heads), "Ram:", m.Ram), "VRam:", m.VRam)
		out = writeUint(writeUint(out, "VRam64:", m.VRam64), "VGAMem:", m.VGAMem)
		out = writeText(writeText(writeText(out, "Primary:", m.Primary), "Blob:", m.Blob), "EDID:", m.EDID)
		out = writePart(out, "Accel:", m.Accel)
		out = append(writePart(out, "Resolution:", m.Resolution), "} "...)
	}
	out = writePart(out, "Driver:", device.Driver)
	return append(writePlace(out, device.ACPI, device.Alias, device.Address), '}')
}

func writeBalloon(out []byte, device *libvirtxml.DomainMemBalloon) []byte {
	out = writeText(append(out, '{'), "Model:", device.Model)
	out = writeText(out, "AutoDeflate:", device.AutoDeflate)
	out = writeText(out, "FreePageReporting:", device.FreePageReporting)
	out = writePart(out, "Driver:", device.Driver)
	return append(writePlace(out, device.ACPI, device.Alias, device.Address), '}')
}

func writeRNG(out []byte, device *libvirtxml.DomainRNG) []byte {
	r := projectRNG(*device)
	out = writeText(append(out, '{'), "Model:", r.Model)
	out = writePart(out, "Driver:", r.Driver)
	return append(writePlace(out, r.ACPI, r.Alias, r.Address), '}')
}

func writeController(out []byte, device *libvirtxml.DomainController) []byte {
	out = writeText(append(out, '{'), "Type:", device.Type)
	out = writeNumber(out, "Index:", device.Index)
	out = writeText(out, "Model:", device.Model)
	out = writePart(out, "Driver:", projectControllerDriver(device.Driver))
	if onlyPort(device.PCI) {
		out = writePort(out, device.PCI)
	} else {
		out = writePart(out, "PCI:", nilIfEmpty(device.PCI))
	}
	out = writePart(out, "USB:", nilIfEmpty(device.USB))
	out = writePart(out, "VirtIOSerial:", nilIfEmpty(device.VirtIOSerial))
	out = writePart(out, "XenBus:", device.XenBus)
	out = writePart(out, "NVME:", device.NVME)
	return append(writePlace(out, device.ACPI, nil, device.Address), '}')
}

// onlyPort reports whether writePort knows all that the PCI part of a controller has.
func onlyPort(p *libvirtxml.DomainControllerPCI) bool {
	return p != nil && p.Model != nil && p.Target != nil &&
		*p == libvirtxml.DomainControllerPCI{Model: p.Model, Target: p.Target} &&
		*p.Target == libvirtxml.DomainControllerPCITarget{Chassis: p.Target.Chassis, Port: p.Target.Port, Hotplug: p.Target.Hotplug}
}

func writePort(out []byte, p *libvirtxml.DomainControllerPCI) []byte {
	out = writeText(append(out, "PCI:{Model:{"...), "Name:", p.Model.Name)
	out = writeNumber(append(out, "} Target:{"...), "Chassis:", p.Target.Chassis)
	out = writeNumber(out, "Port:", p.Target.Port)
	return append(writeText(out, "Hotplug:", p.Target.Hotplug), "} } "...)
}
