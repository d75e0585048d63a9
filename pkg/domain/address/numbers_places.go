package address

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Places on buses other than PCI, as records hold them. Whoever reads one must be able to build all that it needs: a drive on
// controller 4000000000 would need as many controllers. So a number that the allocator cannot give is refused when it is read.

// Places of a controller.
const (
	// SATAUnits is how many ports the AHCI controller of ICH9 has.
	SATAUnits = 6
	// SCSIUnits is how many LUNs a virtio-scsi target takes before Linux guests need another way to list them.
	SCSIUnits = 256
	// USBPorts of a controller; QEMU's default of four is soon full, and libvirt would add hubs.
	USBPorts = 15
	// SerialPorts of a virtio-serial controller; port 0 is for a virtio console, and QEMU has 31.
	SerialPorts = 30
)

const (
	// controllers of a kind: each sits behind a root port of its own.
	controllers = MaxPorts
	// cells is QEMU's limit of NUMA nodes.
	cells = 128
	// targets is the number of disks that names of up to two letters tell apart, vda to vdzz.
	targets = 26 + 26*26
)

// Drive is the place of a SATA or SCSI disk. Its bus and target are 0: Kiln's controllers have one of each.
type Drive struct{ Controller, Unit uint }

// ParseDrive reads controller:bus:target:unit, decimal.
func ParseDrive(text string) (Drive, error) {
	n, err := numbers(text, []span{{"controller", 0, controllers - 1}, {"bus", 0, 0}, {"target", 0, 0}, {"unit", 0, SCSIUnits - 1}})
	if err != nil {
		return Drive{}, err
	}
	return Drive{n[0], n[3]}, nil
}

// USB is the place of a USB device.
type USB struct{ Bus, Port uint }

// ParseUSB reads bus:port, decimal. Ports count from 1.
func ParseUSB(text string) (USB, error) {
	n, err := numbers(text, []span{{"bus", 0, controllers - 1}, {"port", 1, USBPorts}})
	if err != nil {
		return USB{}, err
	}
	return USB{n[0], n[1]}, nil
}

// Serial is the place of a channel on a virtio-serial controller. Its bus is 0.
type Serial struct{ Controller, Port uint }

// ParseSerial reads controller:bus:port, decimal. Ports count from 1.
func ParseSerial(text string) (Serial, error) {
	n, err := numbers(text, []span{{"controller", 0, controllers - 1}, {"bus", 0, 0}, {"port", 1, SerialPorts}})
	if err != nil {
		return Serial{}, err
	}
	return Serial{n[0], n[2]}, nil
}

var ccwForm = regexp.MustCompile(`^[0-9a-fA-F]{1,2}\.[0-3]\.([0-9a-fA-F]{1,4})$`)

// ParseCCW reads the device number of cssid.ssid.devno, hexadecimal. The other two are the same for all of a guest's devices.
func ParseCCW(text string) (uint, error) {
	parts := ccwForm.FindStringSubmatch(text)
	if parts == nil {
		return 0, fmt.Errorf("not a channel address like 'fe.0.0001'")
	}
	return hex(parts[1]), nil
}

// Target is the name of a disk for libvirt: 'vd' or 'sd', and a number in letters.
type Target struct {
	Prefix string
	Number uint
}

// ParseTarget reads a name such as vda or sdab.
func ParseTarget(text string) (Target, error) {
	for _, prefix := range []string{"vd", "sd"} {
		letters, found := strings.CutPrefix(text, prefix)
		if n, ok := FromLetters(letters); found && ok && len(letters) <= 2 && n < targets {
			return Target{prefix, n}, nil
		}
	}
	return Target{}, fmt.Errorf("not a disk name from 'vda' to 'vdzz' or 'sda' to 'sdzz'")
}

// ParseExpander reads what records say of an expander bus: its number and the guest's NUMA cell, 240:1, or 240: where it has none.
func ParseExpander(text string) (Expander, error) {
	number, cell, found := strings.Cut(text, ":")
	if !found {
		return Expander{}, fmt.Errorf("not a bus number and a NUMA cell like '240:1'")
	}
	if cell == "" {
		n, err := numbers(number, []span{{"bus number", 1, buses - 1}})
		if err != nil {
			return Expander{}, err
		}
		return Expander{BusNr: n[0]}, nil
	}
	n, err := numbers(text, []span{{"bus number", 1, buses - 1}, {"NUMA cell", 0, cells - 1}})
	if err != nil {
		return Expander{}, err
	}
	return Expander{BusNr: n[0], Cell: &n[1]}, nil
}

// span is what one number of a place may be.
type span struct {
	name        string
	least, most uint
}

// numbers reads decimal numbers with colons between them.
func numbers(text string, spans []span) ([]uint, error) {
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
