package abi

import (
	"slices"
	"strings"

	"github.com/kilnvm/kiln/pkg/record"
	"libvirt.org/go/libvirtxml"
)

// Device is one device of a domain that has, or could have, a guest address.
type Device struct {
	// Kind is the name of the XML element; Name is the alias without its prefixes, or for controllers type and index. They
	// make the Key of the record: a disk and an interface of one name are two keys.
	Kind, Name string
	// Alias is nil for controllers: libvirt names the machine's controllers after QEMU's buses (pci.0) and requires these names.
	Alias   **libvirtxml.DomainAlias
	Address **libvirtxml.DomainAddress
	// One of these is set if more than the address matters.
	Disk       *libvirtxml.DomainDisk
	Interface  *libvirtxml.DomainInterface
	Controller *libvirtxml.DomainController
	Hostdev    *libvirtxml.DomainHostdev
	// Model and Bus are set if the element has them.
	Model, Bus string
	// Element is a pointer to libvirtxml's struct.
	Element any
	key     string
}

// Key names a device in records.
func (d Device) Key() string { return d.key }

// Devices lists all devices of a domain in a fixed order of kinds, and within a kind in the order of the domain. New devices get addresses in this order, so
// it must not change. Interfaces come first, because guests name them after their bus.
func Devices(dom *libvirtxml.Domain) []Device {
	if dom.Devices == nil {
		return nil
	}
	return AppendDevices(make([]Device, 0, estimateDevices(dom.Devices)), dom)
}

// AppendDevices appends what Devices returns for a domain that has devices.
func AppendDevices(out []Device, dom *libvirtxml.Domain) []Device {
	visitDevices(dom.Devices, func(d Device) { out = append(out, d) })
	return out
}

// estimateDevices estimates the number of devices for one allocation: the long lists, and a dozen single devices and controllers that come later.
func estimateDevices(l *libvirtxml.DomainDeviceList) int {
	return len(l.Interfaces) + len(l.Hostdevs) + len(l.Controllers) + len(l.Disks) + len(l.Filesystems) + 12
}

// AddControllers inserts the controllers of a domain into the list of its other devices, in the order of Devices.
func AddControllers(others []Device, dom *libvirtxml.Domain) []Device {
	at := slices.IndexFunc(others, func(d Device) bool { return d.Kind != "interface" && d.Kind != "hostdev" })
	if at < 0 {
		at = len(others)
	}
	out := slices.Grow(others, len(dom.Devices.Controllers))[:len(others)+len(dom.Devices.Controllers)]
	copy(out[at+len(dom.Devices.Controllers):], others[at:])
	w := deviceWalk{each: func(d Device) { out[at], at = d, at+1 }}
	w.visitControllers(dom.Devices)
	return out
}

// visitDevices calls each for every device, in the order of Devices.
func visitDevices(l *libvirtxml.DomainDeviceList, each func(Device)) {
	w := deviceWalk{each: each}
	w.visitNetworkAndHost(l)
	w.visitControllers(l)
	w.visitAfterControllers(l)
}

// visitOthers calls each for every device that is no controller.
func visitOthers(l *libvirtxml.DomainDeviceList, each func(Device)) {
	w := deviceWalk{each: each}
	w.visitNetworkAndHost(l)
	w.visitAfterControllers(l)
}

// deviceWalk is the state of visitDevices.
type deviceWalk struct {
	each func(Device)
	// keys holds the text of all keys, which are parts of it: a string of its own would be an allocation for each device.
	keys strings.Builder
}

// visitAfterControllers visits the devices that come after the controllers.
func (w *deviceWalk) visitAfterControllers(l *libvirtxml.DomainDeviceList) {
	w.visitStorage(l)
	w.visitInteractive(l)
	w.visitCharacterDevices(l)
	w.visitMisc(l)
}

// visitDevice completes name and key of a device and visits it. The key is kind and name, so that it does not depend on how the alias is qualified.
func (w *deviceWalk) visitDevice(d Device) {
	if d.Name == "" {
		d.Name = Name(d.Kind, *d.Alias)
	}
	if d.key == "" {
		d.key = w.keyOf(d.Kind, d.Name)
	}
	w.each(d)
}

// keyOf returns what record.Key returns. A part of the builder's text stays valid when the builder grows.
func (w *deviceWalk) keyOf(kind, name string) string {
	start := w.keys.Len()
	record.WriteKey(&w.keys, kind, name)
	return w.keys.String()[start:]
}

func (w *deviceWalk) visitNetworkAndHost(l *libvirtxml.DomainDeviceList) {
	w.keys.Grow(16 * (estimateDevices(l) - len(l.Controllers)))
	for i := range l.Interfaces {
		e := &l.Interfaces[i]
		d := Device{Element: e, Kind: "interface", Alias: &e.Alias, Address: &e.Address, Interface: e}
		if e.Model != nil {
			d.Model = e.Model.Type
		}
		w.visitDevice(d)
	}
	for i := range l.Hostdevs {
		e := &l.Hostdevs[i]
		d := Device{Element: e, Kind: "hostdev", Alias: &e.Alias, Address: &e.Address, Hostdev: e}
		if e.SubsysMDev != nil {
			d.Model = e.SubsysMDev.Model
		}
		w.visitDevice(d)
	}
}

// visitControllers visits the controllers. Kiln gives them no alias; type and index are their name.
func (w *deviceWalk) visitControllers(l *libvirtxml.DomainDeviceList) {
	for i := range l.Controllers {
		e := &l.Controllers[i]
		index := uint(0)
		if e.Index != nil {
			index = *e.Index
		}
		key := record.ControllerKey(e.Type, index)
		kind, name := record.SplitKey(key)
		w.visitDevice(Device{Element: e, Kind: kind, Name: name, Address: &e.Address, Controller: e, Model: e.Model, key: key})
	}
}

func (w *deviceWalk) visitStorage(l *libvirtxml.DomainDeviceList) {
	for i := range l.Disks {
		e := &l.Disks[i]
		d := Device{Element: e, Kind: "disk", Alias: &e.Alias, Address: &e.Address, Disk: e, Model: e.Model}
		if e.Target != nil {
			d.Bus = e.Target.Bus
		}
		w.visitDevice(d)
	}
	for i := range l.Filesystems {
		e := &l.Filesystems[i]
		w.visitDevice(Device{Element: e, Kind: "filesystem", Alias: &e.Alias, Address: &e.Address})
	}
}

func (w *deviceWalk) visitInteractive(l *libvirtxml.DomainDeviceList) {
	for i := range l.Videos {
		e := &l.Videos[i]
		w.visitDevice(Device{Element: e, Kind: "video", Alias: &e.Alias, Address: &e.Address, Model: e.Model.Type})
	}
	for i := range l.Inputs {
		e := &l.Inputs[i]
		w.visitDevice(Device{Element: e, Kind: "input", Alias: &e.Alias, Address: &e.Address, Bus: e.Bus, Model: e.Model})
	}
	for i := range l.Sounds {
		e := &l.Sounds[i]
		w.visitDevice(Device{Element: e, Kind: "sound", Alias: &e.Alias, Address: &e.Address, Model: e.Model})
	}
	for i := range l.RedirDevs {
		e := &l.RedirDevs[i]
		w.visitDevice(Device{Element: e, Kind: "redirdev", Alias: &e.Alias, Address: &e.Address, Bus: e.Bus})
	}
}

func (w *deviceWalk) visitCharacterDevices(l *libvirtxml.DomainDeviceList) {
	for i := range l.Serials {
		e := &l.Serials[i]
		w.visitDevice(Device{Element: e, Kind: "serial", Alias: &e.Alias, Address: &e.Address})
	}
	for i := range l.Channels {
		e := &l.Channels[i]
		w.visitDevice(Device{Element: e, Kind: "channel", Alias: &e.Alias, Address: &e.Address})
	}
}

func (w *deviceWalk) visitMisc(l *libvirtxml.DomainDeviceList) {
	for i := range l.Watchdogs {
		e := &l.Watchdogs[i]
		w.visitDevice(Device{Element: e, Kind: "watchdog", Alias: &e.Alias, Address: &e.Address, Model: e.Model})
	}
	for i := range l.TPMs {
		e := &l.TPMs[i]
		w.visitDevice(Device{Element: e, Kind: "tpm", Alias: &e.Alias, Address: &e.Address, Model: e.Model})
	}
	for i := range l.RNGs {
		e := &l.RNGs[i]
		w.visitDevice(Device{Element: e, Kind: "rng", Alias: &e.Alias, Address: &e.Address, Model: e.Model})
	}
	for i := range l.Panics {
		e := &l.Panics[i]
		w.visitDevice(Device{Element: e, Kind: "panic", Alias: &e.Alias, Address: &e.Address, Model: e.Model})
	}
	if e := l.MemBalloon; e != nil {
		w.visitDevice(Device{Element: e, Kind: "memballoon", Alias: &e.Alias, Address: &e.Address, Model: e.Model})
	}
	if e := l.VSock; e != nil {
		w.visitDevice(Device{Element: e, Kind: "vsock", Alias: &e.Alias, Address: &e.Address, Model: e.Model})
	}
}
