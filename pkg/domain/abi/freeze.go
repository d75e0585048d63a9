package abi

import (
	"path"

	"github.com/kilnvm/kiln/pkg/address"
	"github.com/kilnvm/kiln/pkg/record"
	"libvirt.org/go/libvirtxml"
)

// Freeze returns the hardware record of a finished frontend: what later boots must find again and cannot derive from the spec. The domain must have
// all its addresses; defaults is the version of its FrontendDefaults. The record goes into the VMI's GuestHardware.
func Freeze(dom *libvirtxml.Domain, defaults string) record.Record {
	r := record.Record{Defaults: defaults, Digest: Digest(dom), UUID: dom.UUID, GenerationID: dom.GenID != nil, MACs: map[string]string{}}
	if dom.OS != nil && dom.OS.Type != nil {
		r.Machine = dom.OS.Type.Machine
	}
	if r.Firmware = firmwareBuild(dom.OS); r.Firmware != "" {
		r.SchemaVersion = firmwareVersion
	}
	r.SMBIOS, r.Serial = SystemStrings(dom)
	if r.BIOS = biosStrings(dom); len(r.BIOS) > 0 {
		r.SchemaVersion = biosVersion
	}
	r.TSC = tscFrequency(dom.Clock)
	r.NUMA = numaNodes(dom)
	if dom.Devices == nil {
		return r
	}
	r.BootDisk = BootDisk(dom)
	if len(dom.Devices.Videos) > 0 {
		r.Video = dom.Devices.Videos[0].Model.Type
	}
	if balloon := dom.Devices.MemBalloon; balloon != nil {
		r.DeflateOnOOM = balloon.AutoDeflate == "on"
	}
	if vsock := dom.Devices.VSock; vsock != nil && vsock.CID != nil {
		r.VSOCK = vsock.CID.Address
	}
	freezeDevices(&r, dom.Devices)
	return r
}

// Values of schemaVersion that added a field.
const (
	firmwareVersion = 2
	biosVersion     = 4
)

// firmwareBuild returns the file name of the firmware build. It returns an empty text if the frontend leaves the choice to the backend, and for a file of a
// running domain whose name no record can have.
func firmwareBuild(o *libvirtxml.DomainOS) string {
	switch {
	case o == nil || !firmwareOf(o).efi:
		return record.NoFirmware
	case o.Loader == nil:
		return ""
	}
	if name := path.Base(o.Loader.Path); record.CheckFirmware(name) == nil {
		return name
	}
	return ""
}

const (
	rootPort = "pcie-root-port"
	buses    = 256 // the number of a PCI bus has eight bits
)

// onRootBus reports whether a root port counts for FreePorts. Ports on expander buses do not: nothing is hot-plugged into them.
func onRootBus(a *libvirtxml.DomainAddress) bool {
	return a == nil || a.PCI == nil || valueOr0(a.PCI.Bus) == 0
}

// formatExpander returns bus number and NUMA node of an expander bus in the form of records; empty for other controllers.
func formatExpander(c *libvirtxml.DomainController) string {
	if c.PCI == nil || c.PCI.Target == nil || c.PCI.Target.BusNr == nil {
		return ""
	}
	return address.Expander{BusNr: *c.PCI.Target.BusNr, NUMANode: c.PCI.Target.NUMANode}.String()
}

// freezeDevices records where all devices are, and how many root ports are free.
func freezeDevices(r *record.Record, l *libvirtxml.DomainDeviceList) {
	r.Devices = make(map[string]record.Address, estimateDevices(l))
	var occupied [buses]bool
	occupy := func(a *libvirtxml.DomainAddress) {
		if a != nil && a.PCI != nil && valueOr0(a.PCI.Bus) < buses {
			occupied[valueOr0(a.PCI.Bus)] = true
		}
	}
	visitOthers(l, func(d Device) {
		freezeDevice(r, &d)
		occupy(*d.Address)
	})
	for i := range l.Controllers { // apart, because most devices are controllers, which need no Device
		freezeController(r, &l.Controllers[i])
		occupy(l.Controllers[i].Address)
	}
	for i := range l.Controllers {
		c := &l.Controllers[i]
		if bus := valueOr0(c.Index); c.Model == rootPort && onRootBus(c.Address) && (bus >= buses || !occupied[bus]) {
			r.FreePorts++
		}
	}
}

// freezeDevice records the address of a device, the MAC of an interface, and of a disk target name and block size, which with matchVolume came
// from the volume of the first boot.
func freezeDevice(r *record.Record, d *Device) {
	if d.Interface != nil && d.Interface.MAC != nil {
		r.MACs[d.Name] = d.Interface.MAC.Address
	}
	a := FromLibvirt(*d.Address)
	if d.Disk != nil && d.Disk.Target != nil {
		a.Target = d.Disk.Target.Dev
	}
	if d.Disk != nil && d.Disk.BlockIO != nil {
		if r.BlockSizes == nil {
			r.BlockSizes = map[string]record.BlockSize{}
		}
		size := d.Disk.BlockIO
		r.BlockSizes[d.Name] = record.BlockSize{Logical: size.LogicalBlockSize, Physical: size.PhysicalBlockSize, Discard: valueOr0(size.DiscardGranularity)}
	}
	if a != (record.Address{}) {
		r.Devices[d.Key()] = a
	}
}

// freezeController records address and index of a controller, and the model of USB controllers.
func freezeController(r *record.Record, c *libvirtxml.DomainController) {
	if c.Type == "usb" && c.Model != "none" && c.Model != "qemu-xhci" { // as records had before they held models
		r.USB = c.Model
	}
	a := FromLibvirt(c.Address)
	if a.Index, a.Expander = c.Index, formatExpander(c); a != (record.Address{}) {
		r.Devices[record.ControllerKey(c.Type, valueOr0(c.Index))] = a
	}
}

// FromLibvirt converts an address to the form of records; it is empty for kinds that records do not have.
func FromLibvirt(a *libvirtxml.DomainAddress) record.Address {
	switch {
	case a == nil:
		return record.Address{}
	case a.PCI != nil:
		return record.Address{PCI: address.PCI{Bus: valueOr0(a.PCI.Bus), Slot: valueOr0(a.PCI.Slot), Function: valueOr0(a.PCI.Function)}.String()}
	case a.Drive != nil:
		at := address.Drive{Controller: valueOr0(a.Drive.Controller), Bus: valueOr0(a.Drive.Bus), Target: valueOr0(a.Drive.Target), Unit: valueOr0(a.Drive.Unit)}
		return record.Address{Drive: at.String()}
	case a.USB != nil:
		return record.Address{USB: address.FormatUSB(valueOr0(a.USB.Bus), a.USB.Port)}
	case a.VirtioSerial != nil:
		at := address.Serial{Controller: valueOr0(a.VirtioSerial.Controller), Bus: valueOr0(a.VirtioSerial.Bus), Port: valueOr0(a.VirtioSerial.Port)}
		return record.Address{Serial: at.String()}
	case a.CCW != nil:
		return record.Address{CCW: address.CCW{CSSID: valueOr0(a.CCW.CSSID), SSID: valueOr0(a.CCW.SSID), Device: valueOr0(a.CCW.DevNo)}.String()}
	}
	return record.Address{} // QEMU's models have fixed ISA addresses
}

// valueOr0 returns 0 for a part of an address that is not set, as libvirt does.
func valueOr0(n *uint) uint {
	if n == nil {
		return 0
	}
	return *n
}

// SystemStrings returns the DMI strings of the system and its serial. They came from the cluster's configuration, which may change; the UUID is
// recorded apart.
func SystemStrings(dom *libvirtxml.Domain) (map[string]string, string) {
	texts, serial := map[string]string{}, ""
	for _, info := range dom.SysInfo {
		if info.SMBIOS == nil || info.SMBIOS.System == nil {
			continue
		}
		for _, entry := range info.SMBIOS.System.Entry {
			switch entry.Name {
			case "uuid":
			case "serial":
				serial = entry.Value
			default:
				texts[entry.Name] = entry.Value
			}
		}
	}
	return texts, serial
}

// biosStrings returns the strings of the BIOS in the DMI table, nil if the firmware writes its own. Strings that no record can have are left out.
func biosStrings(dom *libvirtxml.Domain) (texts map[string]string) {
	for _, info := range dom.SysInfo {
		if info.SMBIOS == nil || info.SMBIOS.BIOS == nil {
			continue
		}
		for _, entry := range info.SMBIOS.BIOS.Entry {
			if record.CheckBIOS(entry.Name, entry.Value) != nil {
				continue
			}
			if texts == nil {
				texts = map[string]string{}
			}
			texts[entry.Name] = entry.Value
		}
	}
	return texts
}

// tscFrequency is in Hz, 0 without a promised one.
func tscFrequency(clock *libvirtxml.DomainClock) uint64 {
	if clock == nil {
		return 0
	}
	for _, timer := range clock.Timer {
		if timer.Name == "tsc" {
			return timer.Frequency
		}
	}
	return 0
}
