package guest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"libvirt.org/go/libvirtxml"
)

// models are the PCI identifiers, vendor and device, of what QEMU shows for libvirt's models. The identifiers of virtio devices follow from their type
// (Virtual I/O Device Specification 1.2, 4.1.2.1 and 5).
var models = map[string]string{
	"pcie-root-port": "1b36 000c", "pcie-to-pci-bridge": "1b36 000e", "qemu-xhci": "1b36 000d", "sata": "8086 2922",
	"vga": "1234 1111", "bochs": "1234 1111", "i6300esb": "8086 25ab", "e1000": "8086 100e", "e1000e": "8086 10d3", "rtl8139": "10ec 8139",
	"ich9": "8086 293e", "pvpanic": "1b36 0011",
}

// serials are what QEMU's USB inputs begin theirs with.
var serials = map[string]string{"tablet": "28754", "keyboard": "68284", "mouse": "89126"}

// virtio device types.
const (
	virtioNet      = 1
	virtioBlock    = 2
	virtioConsole  = 3
	virtioEntropy  = 4
	virtioBalloon  = 5
	virtioSCSI     = 8
	virtioGraphics = 16
	virtioInput    = 18
)

// describeFunction says that a model, or a virtio device of a type, is at a place.
func (d *document) describeFunction(address *libvirtxml.DomainAddress, model string, virtioType int) string {
	place := d.placeOf(address)
	ids, known := models[model]
	if strings.HasPrefix(model, "virtio") {
		ids, known = fmt.Sprintf("1af4 %04x", 0x1040+virtioType), true
	}
	vendor, device, _ := strings.Cut(ids, " ")
	if place == "" || !known {
		// Not in silence: what is not known here would be left uncompared.
		d.addLine("unknown model '%s' at '%s'", model, place)
		return place
	}
	d.addLine("pci %s vendor=0x%s", place, vendor)
	d.addLine("pci %s device=0x%s", place, device)
	return place
}

// describeChipset is what every q35 machine has and no document lists: host bridge, LPC bridge and SMBus of ICH9.
func (d *document) describeChipset() {
	for place, device := range map[string]string{"00.0": "29c0", "1f.0": "2918", "1f.3": "2930"} {
		d.addLine("pci %s vendor=0x8086", place)
		d.addLine("pci %s device=0x%s", place, device)
	}
}

// describeControllers adds the controllers that a guest sees as PCI functions: not pcie-root, and not a USB controller of model 'none'.
func (d *document) describeControllers() {
	for _, c := range d.Devices.Controllers {
		switch c.Type {
		case "pci":
			if c.Model == "pcie-root" {
				continue
			}
			place := d.describeFunction(c.Address, c.Model, 0)
			if c.Model == "pcie-root-port" {
				d.addLine("pci %s hotplug=%s", place, cmp.Or(c.PCI.Target.Hotplug, "on"))
				d.addLine("pci %s port=%d", place, *c.PCI.Target.Port)
			}
		case "usb":
			if c.Model == "none" {
				continue
			}
			place := d.describeFunction(c.Address, c.Model, 0)
			for speed, product := range map[int]string{480: "0002", 5000: "0003"} { // xHCI has a hub for each generation
				d.addLine("usb %s:hub-%d vendor=%s", place, speed, linuxHub)
				d.addLine("usb %s:hub-%d product=%s", place, speed, product)
			}
		case "sata":
			d.describeFunction(c.Address, "sata", 0)
		case "scsi":
			d.describeFunction(c.Address, c.Model, virtioSCSI)
		case "virtio-serial":
			d.describeFunction(c.Address, cmp.Or(c.Model, "virtio"), virtioConsole)
		}
	}
}

// controllerPlace returns the place of a controller.
// The text 'none' appears in a line that no guest has, so that a missing controller becomes a difference.
func (d *document) controllerPlace(kind string, index uint) string {
	at := slices.IndexFunc(d.Devices.Controllers, func(c libvirtxml.DomainController) bool { return c.Type == kind && *c.Index == index })
	if at < 0 {
		return "none"
	}
	return d.placeOf(d.Devices.Controllers[at].Address)
}

// describeDisks adds the disks with the keys of Text: the bus, the place of the controller, and the unit on it.
func (d *document) describeDisks() {
	for _, disk := range d.Devices.Disks {
		key, serial := "disk "+disk.Target.Bus+":", disk.Serial
		switch a := disk.Address; disk.Target.Bus {
		case "virtio":
			key += d.describeFunction(a, "virtio", virtioBlock)
		case "scsi":
			key += fmt.Sprintf("%s:%d:%d", d.controllerPlace("scsi", *a.Drive.Controller), *a.Drive.Target, *a.Drive.Unit)
		case "sata":
			key += fmt.Sprintf("%s:%d", d.controllerPlace("sata", *a.Drive.Controller), *a.Drive.Unit)
		case "usb":
			stick := fmt.Sprintf("%s:%s", d.controllerPlace("usb", *a.USB.Bus), a.USB.Port)
			// The identifiers of QEMU's usb-storage.
			d.addLine("usb %s vendor=46f4", stick)
			d.addLine("usb %s product=0001", stick)
			d.addLine("usb %s serial=%s", stick, serial)
			key += stick
		}
		// QEMU's default for both block sizes.
		logical, physical := uint(512), uint(512)
		if size := disk.BlockIO; size != nil {
			logical, physical = cmp.Or(size.LogicalBlockSize, logical), cmp.Or(size.PhysicalBlockSize, physical)
		}
		removable := 0
		if disk.Device == "cdrom" {
			logical, physical, removable = 2048, 2048, 1
			serial = "" // Linux does not read the serial number of a CD-ROM drive on SATA
		}
		d.addLine("%s serial=%s", key, serial)
		d.addLine("%s readonly=%d", key, map[bool]int{true: 1}[disk.ReadOnly != nil])
		d.addLine("%s removable=%d", key, removable)
		d.addLine("%s logical=%d", key, logical)
		d.addLine("%s physical=%d", key, physical)
	}
}

// describeNICs adds the cards. A card has as many receive queues as its driver element says, one if it says nothing.
func (d *document) describeNICs() {
	for _, nic := range d.Devices.Interfaces {
		place := d.describeFunction(nic.Address, nic.Model.Type, virtioNet)
		queues := uint(1)
		if nic.Driver != nil {
			queues = cmp.Or(nic.Driver.Queues, queues)
		}
		d.addLine("nic %s mac=%s", place, nic.MAC.Address)
		d.addLine("nic %s queues=%d", place, queues)
	}
}

// describeOthers adds serial ports, channels, inputs, and the devices that are only a PCI function each.
func (d *document) describeOthers() {
	for _, s := range d.Devices.Serials {
		if *s.Target.Port == 0 {
			d.addLine("serial ttyS0=4 0x3F8 4") // a 16550A where the first port of a PC is
		}
	}
	for _, c := range d.Devices.Channels {
		at := c.Address.VirtioSerial
		d.addLine("port %s:%d name=%s", d.controllerPlace("virtio-serial", *at.Controller), *at.Port, c.Target.VirtIO.Name)
	}
	for _, input := range d.Devices.Inputs {
		switch input.Bus {
		case "usb":
			controller, port := d.controllerPlace("usb", *input.Address.USB.Bus), input.Address.USB.Port
			at := controller + ":" + port
			// The identifiers of QEMU's USB tablet, keyboard and mouse, which are the same for all three.
			d.addLine("usb %s vendor=0627", at)
			d.addLine("usb %s product=0001", at)
			// QEMU makes a serial of the way from the root bus, so that these devices move only if their place does.
			d.addLine("usb %s serial=%s-0000:00:%s-%s", at, serials[input.Type], strings.ReplaceAll(controller, "/", ":"), port)
		case "virtio":
			d.describeFunction(input.Address, "virtio", virtioInput)
		}
	}
	for range d.Devices.TPMs {
		d.addLine("tpm version=2")
	}
	for _, w := range d.Devices.Watchdogs {
		d.describeFunction(w.Address, w.Model, 0)
		d.addLine("watchdog identity=i6300ESB timer")
	}
	for _, v := range d.Devices.Videos {
		d.describeFunction(v.Address, v.Model.Type, virtioGraphics)
	}
	for _, r := range d.Devices.RNGs {
		d.describeFunction(r.Address, r.Model, virtioEntropy)
	}
	for _, p := range d.Devices.Panics {
		// Of the panic devices only the one on PCI is a function of its own; 'isa' and 'hyperv' are not.
		if p.Model == "pvpanic" {
			d.describeFunction(p.Address, p.Model, 0)
		}
	}
	for _, s := range d.Devices.Sounds {
		d.describeFunction(s.Address, s.Model, 0)
	}
	if b := d.Devices.MemBalloon; b != nil && b.Model != "none" {
		d.describeFunction(b.Address, b.Model, virtioBalloon)
	}
}
