package guest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Markers around a report on the serial line; the end marker carries the number of facts.
const (
	beginMarker = "KILN-REPORT-BEGIN"
	endMarker   = "KILN-REPORT-END"
)

// ErrNoReport says that the stream ended before a whole report was seen: the guest has not booted
// (yet), or its serial line goes elsewhere.
var ErrNoReport = errors.New("no complete guest report")

// Report is the hardware as one boot of the guest saw it. Lists are in the order of the names.
type Report struct {
	Kernel      string // release
	Cmdline     string
	Firmware    string // "bios" or "efi"
	SecureBoot  bool   // the firmware enforces it
	ClockSource string
	CPUModel    string
	CPUs        []CPU // those online
	// MemoryKiB is what the kernel manages: the machine's memory less the kernel itself.
	MemoryKiB int64
	// RAMBytes is what the firmware declares as usable: the machine's memory less a few
	// hundred KiB (megabytes under UEFI) that the firmware keeps.
	RAMBytes int64
	Disks    []Disk
	NICs     []NIC
	PCI      []PCIFunction
	USB      []USBDevice
	// DMI maps the names in /sys/class/dmi/id (product_uuid, sys_vendor, ...) to values.
	DMI map[string]string
	// ACPI maps table names (FACP, SSDT1, ...) to their size in bytes.
	ACPI map[string]int64
	// Files maps the names of the owner's files in QEMU's fw_cfg to their size and SHA-256.
	Files map[string]string
	// Generation is the generation ID as 32 hexadecimal digits in the order of memory: the first three groups of the GUID are reversed.
	Generation string
	// Ports are the names of virtio-serial ports, such as "org.qemu.guest_agent.0".
	Ports []string
	// TPMs are the major versions of the TPMs, such as "2".
	TPMs      []string
	Watchdogs []string // identities
	Inputs    []string // names of input devices
	NUMA      []Node

	// facts are all facts by area, name and field, also those that only Text uses.
	facts map[string]map[string]map[string]string
}

// Node is one NUMA node.
type Node struct {
	Number int
	CPUs   string // those online, as a list such as "0-3"
	// Bytes of memory, in whole blocks of the kernel (128 MiB on small machines) that are there at least in part.
	Bytes int64
}

// CPU is one online logical CPU; the numbers are the kernel's ids. A guest on an AMD CPU model without
// the feature topoext (all of TCG's) counts threads as cores; Intel models tell them apart.
type CPU struct{ Number, Socket, Die, Core int }

// Disk is one block device that has a device behind it.
type Disk struct {
	Name  string // sda, vda, sr0, nvme0n1
	Bytes int64
	// Serial is empty for CD-ROM drives on SATA, which keep it where Linux does not look.
	Serial   string
	Model    string
	ReadOnly bool
	// Removable is true for CD-ROM drives, and for disks that are told to be.
	Removable                   bool
	LogicalBlock, PhysicalBlock int64 // bytes
	Queues                      int
	Bus                         string // "virtio", "scsi" (virtio-scsi), "sata", "usb" or "nvme"
	PCI                         string // address of the controller, "0000:01:00.0"
	// SCSI is host:channel:target:lun as the kernel counts; empty on virtio and nvme.
	SCSI string
	// Port is the port of a SATA disk on its controller, counted from 0 as libvirt's unit is; -1 on other buses.
	Port int
	// Path is the device's directory in sysfs.
	Path string
	// Link is the name that udev gives to the disk in /dev/disk/by-path; empty in a guest without udev.
	Link string
}

// NIC is one network interface that has a device behind it.
type NIC struct {
	Name   string
	MAC    string // lower case with colons
	PCI    string
	MTU    int
	Queues int    // receive queues
	Driver string // virtio_net, e1000e
	// Predictable is the name that udev gives to the interface on a system with systemd; empty in a guest without udev.
	Predictable string
}

// PCIFunction is one PCI function. All numbers are four (class: six) lower case hex digits.
type PCIFunction struct {
	Address                    string // "0000:01:00.0"
	Parent                     string // address of the bridge above, "" on the root bus
	Vendor, Device             string
	SubsystemVendor, Subsystem string
	Class                      string
	Driver                     string // "" when no driver took it
}

// USBDevice is one USB device, hubs and root hubs included.
type USBDevice struct {
	Name            string // "usb1" for a root hub, "1-2" for port 2 on bus 1
	Vendor, Product string // four hex digits
	Title           string
	PCI             string // address of the controller
}

// Topology returns the numbers of sockets, of cores per socket and of threads per core. An uneven
// topology is an error.
func (r Report) Topology() (sockets, cores, threads int, err error) {
	packages, whole := map[int]bool{}, map[[3]int]bool{}
	for _, cpu := range r.CPUs {
		packages[cpu.Socket] = true
		whole[[3]int{cpu.Socket, cpu.Die, cpu.Core}] = true
	}
	sockets = len(packages)
	if sockets == 0 || len(whole)%sockets != 0 || len(r.CPUs)%len(whole) != 0 {
		return 0, 0, 0, fmt.Errorf("uneven topology of %d CPUs: %v", len(r.CPUs), r.CPUs)
	}
	return sockets, len(whole) / sockets, len(r.CPUs) / len(whole), nil
}

// Place returns the way to a PCI function from the root bus as slots and functions, such as
// "02.0/00.0" for what is in slot 0 behind the root port at 0000:00:02.0. Addresses are to be compared
// by it: the bus numbers in a guest are the firmware's, which numbers bridges in the order of their
// slots, while the bus numbers in a domain are indexes of controllers. "" means no such function.
func (r Report) Place(address string) string {
	for _, function := range r.PCI {
		if function.Address != address {
			continue
		}
		// "0000:01:00.0" without domain and bus.
		place := address[len("0000:00:"):]
		if function.Parent != "" {
			return r.Place(function.Parent) + "/" + place
		}
		return place
	}
	return ""
}

// ParseReport reads a guest's serial output up to the end of its first report and returns that. It
// does not wait for the end of the stream. The error is ErrNoReport when the stream ends before.
func ParseReport(r io.Reader) (Report, error) {
	lines := bufio.NewScanner(r)
	facts, err := nextFacts(lines)
	if err != nil {
		return Report{}, err
	}
	return newReport(facts)
}

// ParseReports returns every whole report of a serial log, which libvirt may append to over several boots.
func ParseReports(r io.Reader) ([]Report, error) {
	lines := bufio.NewScanner(r)
	var out []Report
	for {
		facts, err := nextFacts(lines)
		if errors.Is(err, ErrNoReport) {
			return out, lines.Err()
		}
		if err != nil {
			return nil, err
		}
		report, err := newReport(facts)
		if err != nil {
			return nil, err
		}
		out = append(out, report)
	}
}

// fact is one "key=value" line.
type fact struct{ key, value string }

// nextFacts reads up to and including the next end marker.
func nextFacts(lines *bufio.Scanner) ([]fact, error) {
	var facts []fact
	inside := false
	for lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		end, ended := strings.CutPrefix(line, endMarker)
		switch {
		case line == beginMarker:
			// A guest that was killed in mid-report may be followed by the next boot.
			inside, facts = true, nil
		case inside && ended:
			if want := fmt.Sprint(len(facts)); strings.TrimSpace(end) != want {
				return nil, fmt.Errorf("torn guest report: %s facts were sent and %s arrived", strings.TrimSpace(end), want)
			}
			return facts, nil
		case inside:
			// Anything else on the line is the kernel's or the firmware's.
			if rest, ours := strings.CutPrefix(line, "@ "); ours {
				key, value, _ := strings.Cut(rest, "=")
				facts = append(facts, fact{key, value})
			}
		}
	}
	return nil, errors.Join(ErrNoReport, lines.Err())
}
