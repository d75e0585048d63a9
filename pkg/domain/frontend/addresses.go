package frontend

import (
	"strconv"
	"sync"

	"github.com/kilnvm/kiln/pkg/address"
	"github.com/kilnvm/kiln/pkg/domain/abi"
	"github.com/kilnvm/kiln/pkg/hardware"
	"github.com/kilnvm/kiln/pkg/internal/vm"
	"github.com/kilnvm/kiln/pkg/record"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"libvirt.org/go/libvirtxml"
)

// Owns aliases, controllers and addresses: the second step of rendering. Every controller and address is written, because libvirt adds
// missing ones in the order of the devices, so that one device more moves others.
// KubeVirt defines a domain up to three times and reads libvirt's addresses back (virtwrap/manager.go); it records none.
// libvirt: "Device Addresses" and "Controllers".

// assignAddresses completes a domain that has all devices except controllers.
func (g *guest) assignAddresses(dom *libvirtxml.Domain) {
	s := scratches.Get().(*scratch)
	p := &addressPlanner{guest: g, dom: dom, devices: abi.AppendDevices(s.devices, dom)}
	defer func() { s.returnToPool(p.devices) }()
	p.qualifyAliases(s.owners)
	p.assignTargetNames()
	p.assignDriveAddresses()
	p.assignUSBAddresses()
	p.assignChannelPorts()
	p.addControllers()
	p.devices = abi.AddControllers(p.devices, dom)
	if g.arch.ccw {
		p.assignCCWAddresses()
	} else {
		p.assignPCIAddresses()
	}
}

// scratch is memory of an addressPlanner that the domain does not refer to. The next rendering uses it again: it is a tenth of what the rendering of a small
// guest allocates.
type scratch struct {
	devices []abi.Device
	// owners has the device of each alias and of each key.
	owners map[string]*abi.Device
}

var scratches = sync.Pool{New: func() any { return &scratch{owners: map[string]*abi.Device{}} }}

// mostKept is how many devices a scratch may have that is kept.
const mostKept = 256

// returnToPool puts the scratch back into the pool, without pointers into the domain.
func (s *scratch) returnToPool(devices []abi.Device) {
	clear(devices)
	clear(s.owners)
	if len(devices) <= mostKept {
		s.devices = devices[:0]
		scratches.Put(s)
	}
}

// addressPlanner is the state of the second step of rendering, which writes controllers and addresses.
type addressPlanner struct {
	*guest
	dom *libvirtxml.Domain
	// devices has no controllers until all other devices were counted.
	devices []abi.Device
	// drives are the numbers of controllers that the disks need, in the order of hardware.DiskBuses; usbBuses and serials those that other devices need.
	drives            []uint
	usbBuses, serials uint
	// usbPort is the highest port of a USB device.
	usbPort uint
	// nodes maps the host's NUMA nodes to the guest's that mirror them.
	nodes map[int]uint
}

// checkName checks the name of a device, which becomes its alias.
func (g *guest) checkName(name string, path *field.Path) {
	switch {
	case name == "":
		g.addError(field.Required(path.Child("name"), ""))
	case !vm.IsDeviceName(name):
		g.addError(field.Invalid(path.Child("name"), name, "must consist of letters, digits, '-' and '_'"))
	}
}

// qualifyAliases adds the kind to the alias of a device whose name another kind of device has too: a disk and an interface may both be
// called 'default', and libvirt requires unique aliases. The record is by kind and name, so no address depends on the alias. owners is empty; it gets the
// device of each alias and of each key, of which none can be the other: an alias begins with 'ua-' and a key with a kind and a dot.
func (p *addressPlanner) qualifyAliases(owners map[string]*abi.Device) {
	for i := range p.devices {
		d := &p.devices[i]
		if d.Alias == nil || *d.Alias == nil {
			continue
		}
		if owners[d.Key()] != nil {
			p.addError(field.Duplicate(p.pathOf(d).Child("name"), d.Name))
			continue
		}
		if owners[(*d.Alias).Name] != nil {
			*d.Alias = abi.QualifiedAlias(d.Kind, d.Name)
		}
		if other := owners[(*d.Alias).Name]; other != nil { // an interface named 'disk_a', beside an interface and a disk named 'a'
			*other.Alias = abi.QualifiedAlias(other.Kind, other.Name)
			owners[(*other.Alias).Name] = other
		}
		owners[(*d.Alias).Name], owners[d.Key()] = d, d
	}
}

// pathOf returns the path of a device in the spec, or spec.domain.devices for a device without a field.
func (p *addressPlanner) pathOf(d *abi.Device) *field.Path {
	return p.pinOf(d).path
}

// pinOf returns what the spec has about a device; path is spec.domain.devices for a device without a field.
func (p *addressPlanner) pinOf(d *abi.Device) pin {
	if d.Controller != nil {
		return pin{path: p.devPath}
	}
	pin := p.pins[deviceName{d.Kind, d.Name}]
	if pin.path == nil {
		pin.path = p.devPath
	}
	return pin
}

// recordedAddress returns the address of the record, and the zero address at the first boot and for a new device.
func (p *addressPlanner) recordedAddress(key string) record.Address {
	if p.Frozen == nil {
		return record.Address{}
	}
	return p.Frozen.Devices[key]
}

// numberDevices returns the devices that match, and a number for each: the recorded one, else the lowest free one. number reads the number of a recorded
// address.
func (p *addressPlanner) numberDevices(match func(*abi.Device) bool, number func(record.Address) (uint, bool)) (matching []*abi.Device, numbers []uint) {
	var recorded []uint
	for i := range p.devices {
		d := &p.devices[i]
		if !match(d) {
			continue
		}
		if matching == nil {
			matching, recorded = make([]*abi.Device, 0, len(p.devices)-i), make([]uint, 0, len(p.devices)-i)
		}
		n, ok := uint(0), false
		if p.Frozen != nil {
			n, ok = number(p.recordedAddress(d.Key()))
		}
		if !ok {
			n = address.Unrecorded
		}
		matching, recorded = append(matching, d), append(recorded, n)
	}
	return matching, address.Numbers(recorded, 0)
}

// assignTargetNames gives disks their target names. A disk that is added takes a free name and moves no other disk.
func (p *addressPlanner) assignTargetNames() {
	for _, prefix := range hardware.DiskPrefixes {
		match := func(d *abi.Device) bool { return d.Disk != nil && hardware.Bus(d.Bus).Prefix == prefix }
		number := func(a record.Address) (uint, bool) {
			target, err := address.ParseTarget(a.Target)
			return target.Number, err == nil && target.Prefix == prefix
		}
		disks, numbers := p.numberDevices(match, number)
		for i, d := range disks {
			d.Disk.Target.Dev = address.Target{Prefix: prefix, Number: numbers[i]}.String()
		}
	}
}

// assignDriveAddresses numbers the disks of each bus apart. In KubeVirt SATA and SCSI share one numbering, so that a new SATA disk moves a SCSI disk.
func (p *addressPlanner) assignDriveAddresses() {
	p.drives = make([]uint, len(hardware.DiskBuses))
	for i, bus := range hardware.DiskBuses {
		if bus.Controller != nil {
			p.drives[i] = p.assignUnits(string(bus.Name), bus.Controller.Units)
		}
	}
}

// assignUnits assigns the disks of one bus to its controllers, size disks to each, and returns the number of controllers.
func (p *addressPlanner) assignUnits(bus string, size uint) uint {
	match := func(d *abi.Device) bool { return d.Disk != nil && d.Bus == bus }
	number := func(a record.Address) (uint, bool) {
		at, err := address.ParseDrive(a.Drive)
		n, ok := at.Number(size)
		return n, err == nil && ok
	}
	controllers := uint(0)
	disks, numbers := p.numberDevices(match, number)
	for i, d := range disks {
		at := address.DriveAt(numbers[i], size)
		*d.Address = &libvirtxml.DomainAddress{Drive: &libvirtxml.DomainAddressDrive{Controller: &at.Controller, Bus: &at.Bus, Target: &at.Target, Unit: &at.Unit}}
		controllers = max(controllers, at.Controller+1)
	}
	return controllers
}

func onUSB(d *abi.Device) bool {
	return d.Bus == "usb" || (d.Hostdev != nil && d.Hostdev.SubsysUSB != nil)
}

// assignUSBAddresses assigns a port of an xHCI controller to each USB device.
func (p *addressPlanner) assignUSBAddresses() {
	number := func(a record.Address) (uint, bool) {
		at, err := address.ParseUSB(a.USB)
		return at.Number(), err == nil
	}
	devices, numbers := p.numberDevices(onUSB, number)
	for i, d := range devices {
		at := address.USBAt(numbers[i])
		*d.Address = &libvirtxml.DomainAddress{USB: &libvirtxml.DomainAddressUSB{Bus: &at.Bus, Port: strconv.FormatUint(uint64(at.Port), 10)}}
		p.usbBuses, p.usbPort = max(p.usbBuses, at.Bus+1), max(p.usbPort, at.Port)
	}
	if p.keepsUSB() {
		p.usbBuses = max(p.usbBuses, 1)
	}
}

// keepsUSB reports whether the guest has a USB controller without a device that needs it.
func (p *addressPlanner) keepsUSB() bool {
	switch p.arch.usb {
	case usbAlways:
		return !record.Omits(p.Frozen, record.OmittedUSB)
	case usbOnDemand:
		return record.Omits(p.Frozen, record.OmittedUSBOnDemand) && p.recordedAddress(record.OmittedUSB).PCI != ""
	}
	return false
}

// assignChannelPorts assigns a port of a virtio-serial controller to each channel.
func (p *addressPlanner) assignChannelPorts() {
	match := func(d *abi.Device) bool { return d.Kind == "channel" }
	number := func(a record.Address) (uint, bool) {
		at, err := address.ParseSerial(a.Serial)
		return at.Number(), err == nil
	}
	channels, numbers := p.numberDevices(match, number)
	for i, d := range channels {
		at := address.SerialAt(numbers[i])
		*d.Address = &libvirtxml.DomainAddress{VirtioSerial: &libvirtxml.DomainAddressVirtioSerial{Controller: &at.Controller, Bus: &at.Bus, Port: &at.Port}}
		p.serials = max(p.serials, at.Controller+1)
	}
	if p.serials == 0 && !record.Omits(p.Frozen, record.OmittedVirtioSerial) { // the record omits the channel of the guest agent
		p.serials = 1
	}
}
