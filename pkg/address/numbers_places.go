package address

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/kilnvm/kiln/pkg/hardware"
)

// Places on buses other than PCI, as records hold them. A domain with a place has all controllers below it: a drive on controller 4000000000 would need as
// many controllers. Therefore a number that the allocator cannot give is refused when it is read.

// Numbers of places of a controller. Package hardware has the numbers for controllers of drives.
const (
	// USBPorts of a controller; QEMU's default of four is soon full, and libvirt would add hubs.
	USBPorts = 15
	// serialPorts of a virtio-serial controller; port 0 is for a virtio console, and QEMU has 31.
	serialPorts = 30
)

const (
	// controllers of a kind: each sits behind a root port of its own.
	controllers = MaxPorts
	// maxNUMANodes is the most NUMA nodes that QEMU has.
	maxNUMANodes = 128
	// targets is the number of disks that names of up to two letters tell apart, vda to vdzz.
	targets = 26 + 26*26
)

// Drive is the place of a drive on a controller of drives, such as SATA or SCSI. Bus and Target are 0 in domains of Kiln, whose controllers have one of each.
type Drive struct{ Controller, Bus, Target, Unit uint }

// ParseDrive reads controller:bus:target:unit, decimal.
func ParseDrive(text string) (Drive, error) {
	n, err := parseNumbers(text, []span{{"controller", 0, controllers - 1}, {"bus", 0, 0}, {"target", 0, 0}, {"unit", 0, hardware.MostUnits - 1}})
	if err != nil {
		return Drive{}, err
	}
	return Drive{Controller: n[0], Unit: n[3]}, nil
}

// String returns the form that ParseDrive reads.
func (d Drive) String() string {
	return joinNumbers(d.Controller, d.Bus, d.Target, d.Unit)
}

// joinNumbers separates numbers by colons. fmt would take ten times as long, and each drive on a controller and each channel has such an address.
func joinNumbers(numbers ...uint) string {
	var few [32]byte // on the stack
	out := few[:0]
	for i, n := range numbers {
		if i > 0 {
			out = append(out, ':')
		}
		out = strconv.AppendUint(out, uint64(n), 10)
	}
	return string(out)
}

// DriveAt returns the place of a drive by its number, which counts from 0 over all controllers, if each controller has the given units.
func DriveAt(number, units uint) Drive {
	return Drive{Controller: number / units, Unit: number % units}
}

// Number is the inverse of DriveAt. It returns false if a controller with the given units has no such unit: the place is of another bus.
func (d Drive) Number(units uint) (uint, bool) {
	return d.Controller*units + d.Unit, d.Unit < units
}

// USB is the place of a USB device. Ports count from 1.
type USB struct{ Bus, Port uint }

// ParseUSB reads bus:port, decimal.
func ParseUSB(text string) (USB, error) {
	n, err := parseNumbers(text, []span{{"bus", 0, controllers - 1}, {"port", 1, USBPorts}})
	if err != nil {
		return USB{}, err
	}
	return USB{n[0], n[1]}, nil
}

// FormatUSB returns the form that ParseUSB reads. libvirt's port is a text: below a hub, which Kiln's domains do not have, it is '1.2'.
func FormatUSB(bus uint, port string) string { return joinNumbers(bus) + ":" + port }

// USBAt returns the place of a USB device by its number, which counts from 0 over all controllers.
func USBAt(number uint) USB { return USB{number / USBPorts, number%USBPorts + 1} }

// Number counts over all controllers.
func (u USB) Number() uint { return u.Bus*USBPorts + u.Port - 1 }

// Serial is the place of a channel on a virtio-serial controller. Bus is 0 in domains of Kiln. Ports count from 1.
type Serial struct{ Controller, Bus, Port uint }

// ParseSerial reads controller:bus:port, decimal.
func ParseSerial(text string) (Serial, error) {
	n, err := parseNumbers(text, []span{{"controller", 0, controllers - 1}, {"bus", 0, 0}, {"port", 1, serialPorts}})
	if err != nil {
		return Serial{}, err
	}
	return Serial{Controller: n[0], Port: n[2]}, nil
}

// String returns the form that ParseSerial reads.
func (s Serial) String() string { return joinNumbers(s.Controller, s.Bus, s.Port) }

// SerialAt returns the place of a channel by its number, which counts from 0 over all controllers.
func SerialAt(number uint) Serial {
	return Serial{Controller: number / serialPorts, Port: number%serialPorts + 1}
}

// Number counts over all controllers.
func (s Serial) Number() uint { return s.Controller*serialPorts + s.Port - 1 }

// CCW is the place of a channel device of s390x. The first two numbers are the same for all devices of a domain of Kiln.
type CCW struct{ CSSID, SSID, Device uint }

var ccwForm = regexp.MustCompile(`^([0-9a-fA-F]{1,2})\.([0-3])\.([0-9a-fA-F]{1,4})$`)

// ParseCCW reads cssid.ssid.devno, hexadecimal.
func ParseCCW(text string) (CCW, error) {
	parts := ccwForm.FindStringSubmatch(text)
	if parts == nil {
		return CCW{}, fmt.Errorf("must be a channel address such as 'fe.0.0001'")
	}
	return CCW{parseHex(parts[1]), parseHex(parts[2]), parseHex(parts[3])}, nil
}

// String returns the form that ParseCCW reads.
func (c CCW) String() string { return fmt.Sprintf("%x.%x.%04x", c.CSSID, c.SSID, c.Device) }

// Target is the name of a disk for libvirt: the prefix of its bus, such as 'vd', and a number in letters.
type Target struct {
	Prefix string
	Number uint
}

// String returns the form that ParseTarget reads.
func (t Target) String() string { return t.Prefix + Letters(t.Number) }

// ParseTarget reads a name such as vda or sdab.
func ParseTarget(text string) (Target, error) {
	for _, prefix := range hardware.DiskPrefixes {
		letters, found := strings.CutPrefix(text, prefix)
		if n, ok := FromLetters(letters); found && ok && len(letters) <= 2 && n < targets {
			return Target{prefix, n}, nil
		}
	}
	ranges := make([]string, len(hardware.DiskPrefixes))
	for i, prefix := range hardware.DiskPrefixes {
		ranges[i] = fmt.Sprintf("'%sa' to '%szz'", prefix, prefix)
	}
	return Target{}, fmt.Errorf("must be a disk name from %s", strings.Join(ranges, " or "))
}

// ParseExpander reads an expander bus in the form of records: its number and the guest's NUMA node, such as 240:1, or 240: without a node.
func ParseExpander(text string) (Expander, error) {
	number, node, found := strings.Cut(text, ":")
	if !found {
		return Expander{}, fmt.Errorf("must be a bus number and a NUMA node such as '240:1'")
	}
	if node == "" {
		n, err := parseNumbers(number, []span{{"bus number", 1, buses - 1}})
		if err != nil {
			return Expander{}, err
		}
		return Expander{BusNr: n[0]}, nil
	}
	n, err := parseNumbers(text, []span{{"bus number", 1, buses - 1}, {"NUMA node", 0, maxNUMANodes - 1}})
	if err != nil {
		return Expander{}, err
	}
	return Expander{BusNr: n[0], NUMANode: &n[1]}, nil
}

// String returns the form that ParseExpander reads.
func (e Expander) String() string {
	if e.NUMANode == nil {
		return joinNumbers(e.BusNr) + ":"
	}
	return joinNumbers(e.BusNr, *e.NUMANode)
}

// span is what one number of a place may be.
type span struct {
	name        string
	least, most uint
}

// parseNumbers reads decimal numbers with colons between them.
func parseNumbers(text string, spans []span) ([]uint, error) {
	parts := strings.SplitN(text, ":", len(spans)+1)
	if len(parts) != len(spans) {
		return nil, fmt.Errorf("must be %d numbers with colons between them", len(spans))
	}
	out := make([]uint, len(spans))
	for i, s := range spans {
		n, err := strconv.ParseUint(parts[i], 10, 32)
		if err != nil || uint(n) < s.least || uint(n) > s.most {
			return nil, fmt.Errorf("the %s must be a number from %d to %d", s.name, s.least, s.most)
		}
		out[i] = uint(n)
	}
	return out, nil
}
