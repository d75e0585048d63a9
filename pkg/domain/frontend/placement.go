package frontend

import (
	"iter"
	"strconv"

	"github.com/kilnvm/kiln/pkg/address"
	"github.com/kilnvm/kiln/pkg/domain/abi"
	"github.com/kilnvm/kiln/pkg/internal/vm"
	"github.com/kilnvm/kiln/pkg/record"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"libvirt.org/go/libvirtxml"
)

// Owns aliases, controllers and addresses: the second step of rendering. Every controller and address is written, because libvirt would
// add missing ones, and differently after each added device.

// place completes a domain whose devices are all there but the controllers.
func (g *guest) place(dom *libvirtxml.Domain) {
	p := &placement{guest: g, dom: dom, devices: abi.Devices(dom)}
	p.unique()
	p.name()
	p.drives()
	p.usb()
	p.serial()
	p.controllers()
	p.devices = abi.AddControllers(p.devices, dom)
	if g.arch.ccw {
		p.ccw()
	} else {
		p.pci()
	}
}

// placement is the state of the step. The numbers say how many controllers of a kind the devices need.
type placement struct {
	*guest
	dom *libvirtxml.Domain
	// devices are at first without the controllers, for which they have to be counted.
	devices                       []abi.Device
	sata, scsi, usbBuses, serials uint
	// nodes has the NUMA nodes of the guest by those of the host that they mirror.
	nodes map[int]uint
}

// checkName checks the name of a device, which becomes its alias.
func (g *guest) checkName(name string, path *field.Path) {
	switch {
	case name == "":
		g.fail(field.Required(path.Child("name"), ""))
	case !vm.IsDeviceName(name):
		g.fail(field.Invalid(path.Child("name"), name, "must consist of letters, digits, '-' and '_'"))
	}
}

// unique qualifies the aliases of devices whose name another kind of device has too: a disk and an interface may both be
// called 'default'. The record is by kind and name, so that no address depends on it.
func (p *placement) unique() {
	aliases, keys := make(map[string]bool, len(p.devices)), make(map[string]bool, len(p.devices))
	for _, d := range p.devices {
		if d.Alias == nil || *d.Alias == nil {
			continue
		}
		if keys[d.Key()] {
			p.fail(field.Duplicate(p.at(d).Child("name"), d.Name))
			continue
		}
		if aliases[(*d.Alias).Name] {
			*d.Alias = abi.QualifiedAlias(d.Kind, d.Name)
		}
		keys[d.Key()], aliases[(*d.Alias).Name] = true, true
	}
}

// at is the path of a device in the spec; that of all devices for those that no field asks for.
func (p *placement) at(d abi.Device) *field.Path {
	if pin, ok := p.pins[d.Key()]; ok && pin.path != nil {
		return pin.path
	}
	return p.devPath
}

func (p *placement) recorded(key string) record.Address {
	if p.Frozen == nil {
		return record.Address{}
	}
	return p.Frozen.Devices[key]
}

// targetPrefix by bus; guests do not see target names, but libvirt sorts boot candidates by them and compares them.
func targetPrefix(bus string) string {
	if bus == "virtio" {
		return "vd"
	}
	return "sd"
}

// numbered gives the devices that a bus or prefix has numbers of their own: what the record says, else the lowest ones free.
func (p *placement) numbered(is func(abi.Device) bool, was func(record.Address) (uint, bool)) iter.Seq2[abi.Device, uint] {
	var keys []string
	frozen := map[string]uint{}
	for _, d := range p.devices {
		if !is(d) {
			continue
		}
		keys = append(keys, d.Key())
		if n, ok := was(p.recorded(d.Key())); ok {
			frozen[d.Key()] = n
		}
	}
	places := address.Numbers(keys, frozen, 0)
	return func(yield func(abi.Device, uint) bool) {
		for _, d := range p.devices {
			if n, ok := places[d.Key()]; ok && !yield(d, n) {
				return
			}
		}
	}
}

// name gives disks their target names. A disk that is added takes a free name and moves no other disk.
func (p *placement) name() {
	for _, prefix := range []string{"vd", "sd"} {
		named := func(d abi.Device) bool { return d.Disk != nil && targetPrefix(d.Bus) == prefix }
		was := func(a record.Address) (uint, bool) {
			target, err := address.ParseTarget(a.Target)
			return target.Number, err == nil && target.Prefix == prefix
		}
		for d, n := range p.numbered(named, was) {
			d.Disk.Target.Dev = address.Target{Prefix: prefix, Number: n}.String()
		}
	}
}

func (p *placement) drives() {
	p.sata = p.units("sata", address.SATAUnits)
	p.scsi = p.units("scsi", address.SCSIUnits)
}

// units puts the disks of one bus on its controllers and returns the number of controllers.
func (p *placement) units(bus string, size uint) uint {
	on := func(d abi.Device) bool { return d.Disk != nil && d.Bus == bus }
	was := func(a record.Address) (uint, bool) {
		at, err := address.ParseDrive(a.Drive)
		n, ok := at.Number(size)
		return n, err == nil && ok
	}
	controllers := uint(0)
	for d, n := range p.numbered(on, was) {
		at := address.DriveAt(n, size)
		*d.Address = &libvirtxml.DomainAddress{Drive: &libvirtxml.DomainAddressDrive{Controller: &at.Controller, Bus: &at.Bus, Target: &at.Target, Unit: &at.Unit}}
		controllers = max(controllers, at.Controller+1)
	}
	return controllers
}

func onUSB(d abi.Device) bool {
	return d.Bus == "usb" || (d.Hostdev != nil && d.Hostdev.SubsysUSB != nil)
}

func (p *placement) usb() {
	was := func(a record.Address) (uint, bool) {
		at, err := address.ParseUSB(a.USB)
		return at.Number(), err == nil
	}
	for d, n := range p.numbered(onUSB, was) {
		at := address.USBAt(n)
		*d.Address = &libvirtxml.DomainAddress{USB: &libvirtxml.DomainAddressUSB{Bus: &at.Bus, Port: strconv.FormatUint(uint64(at.Port), 10)}}
		p.usbBuses = max(p.usbBuses, at.Bus+1)
	}
	if p.arch.usb == usbAlways {
		p.usbBuses = max(p.usbBuses, 1)
	}
}

func (p *placement) serial() {
	channel := func(d abi.Device) bool { return d.Kind == "channel" }
	was := func(a record.Address) (uint, bool) {
		at, err := address.ParseSerial(a.Serial)
		return at.Number(), err == nil
	}
	for d, n := range p.numbered(channel, was) {
		at := address.SerialAt(n)
		*d.Address = &libvirtxml.DomainAddress{VirtioSerial: &libvirtxml.DomainAddressVirtioSerial{Controller: &at.Controller, Bus: &at.Bus, Port: &at.Port}}
		p.serials = max(p.serials, at.Controller+1)
	}
}
