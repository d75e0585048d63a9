package abi

import "libvirt.org/go/libvirtxml"

// Projects each kind of device on what a guest sees of it. Every field of libvirtxml is kept or dropped here: source, backend and tuning are
// dropped, because another host has others. Fields of a driver that become features of the virtio device are kept: queues, iommu, ats, packed.
// libvirt: "Devices" and "Virtio-related options".

// keepAll is the projection of devices of which the guest sees every field.
func keepAll[T any](device T) T { return device }

// projectDisk drops the source and what the backend sets of the driver. The target name stays, because libvirt's ABI check compares it.
func projectDisk(d libvirtxml.DomainDisk) libvirtxml.DomainDisk {
	out := libvirtxml.DomainDisk{
		Device: d.Device, Model: d.Model, BlockIO: d.BlockIO, Target: d.Target, ReadOnly: d.ReadOnly, Shareable: d.Shareable,
		Serial: d.Serial, WWN: d.WWN, Vendor: d.Vendor, Product: d.Product, Boot: d.Boot, ACPI: d.ACPI, Alias: d.Alias, Address: d.Address,
	}
	out.Driver = projectDiskDriver(d.Driver)
	return out
}

func projectDiskDriver(r *libvirtxml.DomainDiskDriver) *libvirtxml.DomainDiskDriver {
	if r == nil {
		return nil
	}
	return seenOf(r, libvirtxml.DomainDiskDriver{Queues: r.Queues, QueueSize: r.QueueSize, IOMMU: r.IOMMU, ATS: r.ATS, Packed: r.Packed})
}

// seenOf returns what is seen of a part: nil for nothing, and the part itself if the guest sees all of it, as in most frontends.
func seenOf[T comparable](part *T, seen T) *T {
	switch seen {
	case *new(T):
		return nil
	case *part:
		return part
	}
	out := seen // else each call would allocate
	return &out
}

// nilIfEmpty returns nil for an empty struct.
func nilIfEmpty[T comparable](part *T) *T {
	if part == nil || *part == *new(T) {
		return nil
	}
	return part
}

// projectController drops the alias: frontends have none, and a running domain has QEMU's names. libvirtxml reads an empty struct for the type of a
// controller, which a rendered one lacks.
func projectController(c libvirtxml.DomainController) libvirtxml.DomainController {
	c.Alias = nil
	c.PCI, c.USB, c.VirtIOSerial = nilIfEmpty(c.PCI), nilIfEmpty(c.USB), nilIfEmpty(c.VirtIOSerial)
	c.Driver = projectControllerDriver(c.Driver)
	return c
}

func projectControllerDriver(r *libvirtxml.DomainControllerDriver) *libvirtxml.DomainControllerDriver {
	if r == nil {
		return nil
	}
	return seenOf(r, libvirtxml.DomainControllerDriver{Queues: r.Queues, IOMMU: r.IOMMU, ATS: r.ATS, Packed: r.Packed})
}

// projectFilesystem keeps the tag, by which the guest mounts it.
func projectFilesystem(f libvirtxml.DomainFilesystem) libvirtxml.DomainFilesystem {
	out := libvirtxml.DomainFilesystem{Model: f.Model, Target: f.Target, ReadOnly: f.ReadOnly, Boot: f.Boot, ACPI: f.ACPI, Alias: f.Alias, Address: f.Address}
	if f.Driver != nil {
		out.Driver = &libvirtxml.DomainFilesystemDriver{Type: f.Driver.Type, IOMMU: f.Driver.IOMMU, ATS: f.Driver.ATS, Packed: f.Driver.Packed}
	}
	return out
}

// unconnected replaces the source of every interface: the guest does not see what its network card is connected to.
var unconnected = &libvirtxml.DomainInterfaceSource{Null: &libvirtxml.DomainInterfaceSourceNull{}}

// projectNIC drops the MTU. The guest reads it from virtio-net, but it is a fact of the host's link, which may differ at each start, as in KubeVirt.
func projectNIC(n libvirtxml.DomainInterface) libvirtxml.DomainInterface {
	out := libvirtxml.DomainInterface{
		Source: unconnected, MAC: n.MAC, Model: n.Model, Boot: n.Boot, Link: n.Link, ROM: n.ROM, ACPI: n.ACPI, Alias: n.Alias, Address: n.Address,
	}
	if n.Driver != nil {
		out.Driver = seenOf(n.Driver, projectNICDriver(n.Driver))
	}
	return out
}

func projectNICDriver(r *libvirtxml.DomainInterfaceDriver) libvirtxml.DomainInterfaceDriver {
	if r == nil {
		return libvirtxml.DomainInterfaceDriver{}
	}
	return libvirtxml.DomainInterfaceDriver{
		Queues: r.Queues, RXQueueSize: r.RXQueueSize, TXQueueSize: r.TXQueueSize, IOMMU: r.IOMMU, ATS: r.ATS, Packed: r.Packed,
	}
}

// nicParts is what projectNIC keeps, in a form that Go compares: a DomainInterface has lists.
type nicParts struct {
	mac     *libvirtxml.DomainInterfaceMAC
	model   *libvirtxml.DomainInterfaceModel
	boot    *libvirtxml.DomainDeviceBoot
	link    *libvirtxml.DomainInterfaceLink
	rom     *libvirtxml.DomainROM
	acpi    *libvirtxml.DomainDeviceACPI
	alias   *libvirtxml.DomainAlias
	address *libvirtxml.DomainAddress
	driver  libvirtxml.DomainInterfaceDriver
}

func nicPartsOf(n libvirtxml.DomainInterface) nicParts {
	return nicParts{n.MAC, n.Model, n.Boot, n.Link, n.ROM, n.ACPI, n.Alias, n.Address, projectNICDriver(n.Driver)}
}

// projectSerial keeps the target: type, model and port.
func projectSerial(s libvirtxml.DomainSerial) libvirtxml.DomainSerial {
	return libvirtxml.DomainSerial{Target: s.Target, ACPI: s.ACPI, Alias: s.Alias, Address: s.Address}
}

// projectChannel keeps the name of the virtio port, and drops state, which libvirt adds to a running domain.
func projectChannel(c libvirtxml.DomainChannel) libvirtxml.DomainChannel {
	out := libvirtxml.DomainChannel{ACPI: c.ACPI, Alias: c.Alias, Address: c.Address}
	switch t := c.Target; {
	case t == nil || t.VirtIO == nil:
	case t.VirtIO.State == "" && *t == libvirtxml.DomainChannelTarget{VirtIO: t.VirtIO}:
		out.Target = t // as in frontends
	default:
		out.Target = &libvirtxml.DomainChannelTarget{VirtIO: &libvirtxml.DomainChannelTargetVirtIO{Name: t.VirtIO.Name}}
	}
	return out
}

// projectTPM keeps the model. The state is the guest's, but its place is the host's.
func projectTPM(t libvirtxml.DomainTPM) libvirtxml.DomainTPM {
	return libvirtxml.DomainTPM{Model: t.Model, ACPI: t.ACPI, Alias: t.Alias, Address: t.Address}
}

// projectInput drops the device of the host that it passes through.
func projectInput(i libvirtxml.DomainInput) libvirtxml.DomainInput { i.Source = nil; return i }

// projectSound drops the audio backend of the host.
func projectSound(s libvirtxml.DomainSound) libvirtxml.DomainSound { s.Audio = nil; return s }

// projectWatchdog drops the action: the host carries it out.
func projectWatchdog(w libvirtxml.DomainWatchdog) libvirtxml.DomainWatchdog { w.Action = ""; return w }

// projectRedirDev drops the socket.
func projectRedirDev(r libvirtxml.DomainRedirDev) libvirtxml.DomainRedirDev {
	return libvirtxml.DomainRedirDev{Bus: r.Bus, Boot: r.Boot, ACPI: r.ACPI, Alias: r.Alias, Address: r.Address}
}

// projectRNG drops the source of entropy and its rate.
func projectRNG(r libvirtxml.DomainRNG) libvirtxml.DomainRNG {
	return libvirtxml.DomainRNG{Model: r.Model, Driver: r.Driver, ACPI: r.ACPI, Alias: r.Alias, Address: r.Address}
}

// projectBalloon drops the statistics' period, which is the host's.
func projectBalloon(b *libvirtxml.DomainMemBalloon) *libvirtxml.DomainMemBalloon {
	if b == nil || b.Stats == nil {
		return b
	}
	out := *b
	out.Stats = nil
	return &out
}

// projectHostdev drops the device of the host. A PCI function and a mediated device with model vfio-pci are both PCI devices to the guest, so that one may
// replace the other.
func projectHostdev(h libvirtxml.DomainHostdev) libvirtxml.DomainHostdev {
	out := libvirtxml.DomainHostdev{Boot: h.Boot, ROM: h.ROM, ACPI: h.ACPI, Alias: h.Alias, Address: h.Address}
	switch {
	case h.SubsysPCI != nil:
		out.SubsysPCI = &libvirtxml.DomainHostdevSubsysPCI{Display: displayState(h.SubsysPCI.Display), RamFB: displayState(h.SubsysPCI.RamFB)}
	case h.SubsysMDev != nil && h.SubsysMDev.Model != "vfio-pci": // channel devices and crypto matrices of s390x
		out.SubsysMDev = &libvirtxml.DomainHostdevSubsysMDev{Model: h.SubsysMDev.Model}
	case h.SubsysMDev != nil:
		out.SubsysPCI = &libvirtxml.DomainHostdevSubsysPCI{Display: displayState(h.SubsysMDev.Display), RamFB: displayState(h.SubsysMDev.RamFB)}
	case h.SubsysUSB != nil:
		out.SubsysUSB = &libvirtxml.DomainHostdevSubsysUSB{}
	}
	return out
}

// displayState is empty for 'off', which libvirt stores for mediated devices only.
func displayState(state string) string {
	if state == "off" {
		return ""
	}
	return state
}
