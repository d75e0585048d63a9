package frontend

import (
	"iter"
	"regexp"
	"strconv"
	"strings"

	"github.com/kilnvm/kiln/pkg/domain/abi"
	"github.com/kilnvm/kiln/pkg/domain/address"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"libvirt.org/go/libvirtxml"
)

// Owns aliases, controllers and addresses: the second step of rendering. libvirt would add the controllers and addresses that
// are missing, and differently with each device more; so none is missing.

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
	// cells of the guest by those of the host that they mirror.
	cells map[int]uint
}

// aliasForm is what libvirt takes after 'ua-'.
var aliasForm = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

// named judges the name of a device, which becomes its alias.
func (g *guest) named(name string, path *field.Path) {
	switch {
	case name == "":
		g.fail(field.Required(path.Child("name"), ""))
	case !aliasForm.MatchString(name):
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

func (p *placement) recorded(key string) abi.Address {
	if p.Frozen == nil {
		return abi.Address{}
	}
	return p.Frozen.Devices[key]
}

// numbers of a recorded address other than a PCI one, decimal: '0:0:0:2'. None when it is not of our writing.
func numbers(text string) (out []uint) {
	if text == "" {
		return nil
	}
	for digits := range strings.SplitSeq(text, ":") {
		n, err := strconv.ParseUint(digits, 10, 32)
		if err != nil {
			return nil
		}
		out = append(out, uint(n))
	}
	return out
}

// targetPrefix by bus; guests do not see target names, but libvirt sorts boot candidates by them and compares them.
func targetPrefix(bus string) string {
	if bus == "virtio" {
		return "vd"
	}
	return "sd"
}

// numbered gives the devices that a bus or prefix has numbers of their own: what the record says, else the lowest ones free.
func (p *placement) numbered(is func(abi.Device) bool, was func(abi.Address) (uint, bool)) iter.Seq2[abi.Device, uint] {
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

// name gives disks their target names. A disk that is added takes a free name and moves nobody else's.
func (p *placement) name() {
	for _, prefix := range []string{"vd", "sd"} {
		named := func(d abi.Device) bool { return d.Disk != nil && targetPrefix(d.Bus) == prefix }
		was := func(a abi.Address) (uint, bool) {
			letters, ok := strings.CutPrefix(a.Target, prefix)
			if !ok {
				return 0, false
			}
			return address.FromLetters(letters)
		}
		for d, n := range p.numbered(named, was) {
			d.Disk.Target.Dev = prefix + address.Letters(n)
		}
	}
}

// Units of a controller: six ports has the AHCI controller of ICH9; a virtio-scsi target takes 256 LUNs before Linux guests
// need another way to list them.
const (
	sataUnits = 6
	scsiUnits = 256
)

func (p *placement) drives() {
	p.sata = p.units("sata", sataUnits)
	p.scsi = p.units("scsi", scsiUnits)
}

// units puts the disks of one bus on its controllers and returns the number of controllers.
func (p *placement) units(bus string, size uint) uint {
	on := func(d abi.Device) bool { return d.Disk != nil && d.Bus == bus }
	was := func(a abi.Address) (uint, bool) {
		n := numbers(a.Drive) // controller, bus, target, unit
		if len(n) != 4 {
			return 0, false
		}
		return n[0]*size + n[3], true
	}
	controllers := uint(0)
	for d, n := range p.numbered(on, was) {
		controller, unit, zero := n/size, n%size, uint(0)
		*d.Address = &libvirtxml.DomainAddress{Drive: &libvirtxml.DomainAddressDrive{Controller: &controller, Bus: &zero, Target: &zero, Unit: &unit}}
		controllers = max(controllers, controller+1)
	}
	return controllers
}

// usbPorts of a controller; QEMU's default of four is soon full, and libvirt would add hubs.
const usbPorts = 15

func onUSB(d abi.Device) bool {
	return d.Bus == "usb" || (d.Hostdev != nil && d.Hostdev.SubsysUSB != nil)
}

func (p *placement) usb() {
	was := func(a abi.Address) (uint, bool) {
		n := numbers(a.USB) // bus, port
		if len(n) != 2 || n[1] == 0 {
			return 0, false
		}
		return n[0]*usbPorts + n[1] - 1, true
	}
	for d, n := range p.numbered(onUSB, was) {
		bus, port := n/usbPorts, n%usbPorts+1
		*d.Address = &libvirtxml.DomainAddress{USB: &libvirtxml.DomainAddressUSB{Bus: &bus, Port: strconv.FormatUint(uint64(port), 10)}}
		p.usbBuses = max(p.usbBuses, bus+1)
	}
	if p.arch.usb == usbAlways {
		p.usbBuses = max(p.usbBuses, 1)
	}
}

// serialPorts of a virtio-serial controller; port 0 is for a virtio console, and QEMU has 31.
const serialPorts = 30

func (p *placement) serial() {
	channel := func(d abi.Device) bool { return d.Kind == "channel" }
	was := func(a abi.Address) (uint, bool) {
		n := numbers(a.Serial) // controller, bus, port
		if len(n) != 3 || n[2] == 0 {
			return 0, false
		}
		return n[0]*serialPorts + n[2] - 1, true
	}
	for d, n := range p.numbered(channel, was) {
		controller, port, zero := n/serialPorts, n%serialPorts+1, uint(0)
		*d.Address = &libvirtxml.DomainAddress{VirtioSerial: &libvirtxml.DomainAddressVirtioSerial{Controller: &controller, Bus: &zero, Port: &port}}
		p.serials = max(p.serials, controller+1)
	}
}
