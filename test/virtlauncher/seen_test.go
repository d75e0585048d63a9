package virtlauncher

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/test/guest"
)

// sight is what a guest calls its devices, by what tells that a device is the same one at another boot: the serial number of a disk, the MAC address of an
// interface, vendor and device of anything else. The value has PCI address and the way to it from the root bus, the unit, and what udev makes of it: the name
// of an interface, the link of a disk in /dev/disk/by-path.
type sight map[string]string

// seenBy returns the sight of a report. Bridges do not count, because an operating system looks for the devices behind them.
func seenBy(report guest.Report) sight {
	out, behind := sight{}, map[string]bool{}
	at := func(pci string) string { return pci + " (" + report.Place(pci) + ")" }
	for _, disk := range report.Disks {
		unit := disk.SCSI
		if _, after, found := strings.Cut(unit, ":"); found {
			unit = after // without the number of the host, which counts the controllers
		}
		out["disk "+disk.Bus+" "+disk.Serial] = fmt.Sprintf("%s unit %d/%s link %s", at(disk.PCI), disk.Port, unit, disk.Link)
		behind[disk.PCI] = disk.Bus == "virtio"
	}
	for _, nic := range report.NICs {
		out["interface "+nic.MAC] = at(nic.PCI) + " name " + nic.Predictable
		behind[nic.PCI] = true
	}
	for _, function := range report.PCI {
		if !behind[function.Address] && !strings.HasPrefix(function.Class, "06") {
			out[fmt.Sprintf("device %s:%s", function.Vendor, function.Device)] = at(function.Address)
		}
	}
	for _, device := range report.USB {
		if _, port, found := strings.Cut(device.Name, "-"); found { // no root hub
			out["USB device "+device.Title] = at(device.PCI) + " port " + port
		}
	}
	return out
}

// sameMachine compares what two boots of a guest report of CPU, CPUID, DMI and the devices that the firmware boots from.
func (g space) sameMachine(before, after guest.Report) {
	g.Helper()
	was, is := machineFacts(before), machineFacts(after)
	for _, fact := range []string{"bootorder=/", "cpu model=", "cpu 0 flags=", "cpuid 7=", "cpuid 80000001=", "dmi product_uuid="} {
		if !slices.ContainsFunc(was, func(line string) bool { return strings.HasPrefix(line, fact) }) {
			g.Errorf("the guest does not report '%s':\n%s", fact, strings.Join(was, ""))
		}
	}
	if diff := cmp.Diff(was, is); diff != "" {
		g.Errorf("after a restart the guest reports another machine (-before +after):\n%s", diff)
	}
}

// machineFacts returns the lines of a report that sameMachine compares.
func machineFacts(report guest.Report) (lines []string) {
	for line := range strings.Lines(report.Text()) {
		area, _, _ := strings.Cut(line, " ")
		if area == "cpu" || area == "cpuid" || area == "dmi" || strings.HasPrefix(line, "bootorder=") {
			lines = append(lines, line)
		}
	}
	return lines
}

// moves are devices that two boots of a guest have, and which of them have moved.
type moves struct {
	devices, moved, disks, links, interfaces, names, guests int
	list                                                    []string
}

// compare returns the moves of one guest.
func compare(before, after sight) (m moves) {
	for _, key := range slices.Sorted(maps.Keys(before)) {
		was, is := before[key], after[key]
		if is == "" {
			continue
		}
		m.devices++
		if is == was {
			continue
		}
		m.moved, m.guests = m.moved+1, 1
		m.list = append(m.list, fmt.Sprintf("%s from %s to %s", key, was, is))
		_, oldName, _ := strings.Cut(was, " name ")
		_, newName, _ := strings.Cut(is, " name ")
		_, oldLink, _ := strings.Cut(was, " link ")
		_, newLink, _ := strings.Cut(is, " link ")
		switch {
		case strings.HasPrefix(key, "interface "):
			m.interfaces++
			if oldName != newName {
				m.names++
			}
		case strings.HasPrefix(key, "disk virtio "):
			m.disks++
		}
		if oldLink != newLink {
			m.links++
		}
	}
	return m
}

// add adds the moves of another guest.
func (m *moves) add(other moves) {
	m.devices, m.moved, m.guests = m.devices+other.devices, m.moved+other.moved, m.guests+other.guests
	m.disks, m.links, m.interfaces, m.names = m.disks+other.disks, m.links+other.links, m.interfaces+other.interfaces, m.names+other.names
}

func (m moves) String() string {
	return fmt.Sprintf("of %d devices %d moved, in %d guests: %d virtio disks and %d interfaces among them; %d interfaces have another name, "+
		"%d disks another link", m.devices, m.moved, m.guests, m.disks, m.interfaces, m.names, m.links)
}
