package guest

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Text is the hardware of a report as one line for each fact, sorted, such as 'disk scsi:02.3/00.0:0:3 serial=HOST'. Two
// boots of one machine have the same text, byte for byte, and a device that comes or goes has lines of its own.
//
// Devices are called by their place: the way to them from the root bus (see Place), and below a controller by the unit. Names
// that the guest's kernel gives (eth0, sdb, input3) and bus numbers follow from the order in which devices answer and from which others
// there are. A fact is in the text by the table shown, or left out by the table omitted, which says why.
func (r Report) Text() string {
	var lines []string
	for area, names := range r.facts {
		for name, fields := range names {
			what := strings.TrimSpace(area + " " + r.deviceKey(area, name))
			for field, value := range r.shownFacts(area, fields) {
				lines = append(lines, strings.TrimSpace(what+" "+field)+"="+value+"\n")
			}
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "")
}

// shown maps areas to the facts that are hardware; "*" stands for all of an area.
var shown = map[string][]string{
	"acpi":      {"*"}, // size and SHA-256 of each table
	"bootorder": {"*"},
	"cpu":       {"*"},
	"cpuid":     {"*"}, // the registers of each leaf
	"disk": {"serial", "model", "sectors", "readonly", "removable", "logical", "physical", "queues", "rotational", "discard_granularity",
		"discard_max_bytes"},
	"dmi":        {"*"},
	"firmware":   {"*"},
	"fwcfg":      {"*"}, // size and SHA-256 of each file
	"generation": {"*"},
	"input":      {"name", "id"},
	"memory":     {"bytes"},
	"namespace":  {"*"}, // what the ACPI tables define, by which a change of their digests can be told
	"nic":        {"mac", "mtu", "queues"},
	"node":       {"*"},
	"pci": {"vendor", "device", "class", "subsystem_vendor", "subsystem_device", "revision", "bars", "interrupt", "capabilities", "vectors",
		"slot", "port", "hotplug"},
	"port":       {"name"},
	"possible":   {"*"},
	"rng":        {"*"},
	"secureboot": {"*"},
	"serial":     {"*"},
	"smbios":     {"*"}, // the structures of the table
	"tpm":        {"version"},
	"usb":        {"vendor", "product", "name", "speed", "serial", "bcdDevice"},
	"virtio":     {"device", "features"},
	"watchdog":   {"identity"},
}

// omitted are the facts that are not in the text, by area and field, with the reason.
var omitted = map[string]string{
	"kernel":           "the guest's software",
	"cmdline":          "what the owner tells the guest's software",
	"clocksource":      "the kernel's choice of the moment: it leaves the TSC when a busy host makes that look unsteady",
	"memory.kib":       "what the kernel manages: hardware less what kernel and firmware keep, which is a few KiB more with each disk to boot from",
	"memmap":           "where the firmware keeps what it notes down of devices; the size of memory is in 'node' and 'smbios'",
	"cpu.path":         "a name in the guest's kernel",
	"disk.path":        "bus numbers and names; the place tells the same without them",
	"disk.link":        "what udev makes of the place",
	"disk.ataport":     "part of the place",
	"disk.write_cache": "whether the host's cache may lose writes: the guest must be told so, and can change it",
	"nic.path":         "as disk.path",
	"nic.predictable":  "what udev makes of the place",
	"nic.driver":       "the guest's software",
	"pci.path":         "as disk.path",
	"pci.driver":       "the guest's software",
	"pci.resource":     "addresses that the firmware gives; the sizes are in 'bars'",
	"pci.config": "what of it is the device's is in 'interrupt', 'capabilities', 'vectors', 'port', 'hotplug' and 'slot'; " +
		"the rest is written by firmware and kernel",
	"virtio.path": "as disk.path",
	"usb.path":    "as disk.path",
	"port.path":   "as disk.path",
	"input.path":  "as disk.path",
}

// shownFacts returns the facts of one device that are part of the text, with those that have to be worked out.
func (r Report) shownFacts(area string, fields map[string]string) map[string]string {
	out := map[string]string{}
	wanted := shown[area]
	switch area {
	case "pci":
		fields = withConfig(fields)
	case "smbios":
		fields = structures(fields[""])
	}
	for field, value := range fields {
		if slices.Contains(wanted, "*") || slices.Contains(wanted, field) {
			out[field] = value
		}
	}
	// Every USB controller has such a root hub.
	if area == "usb" && fields["vendor"] == linuxHub {
		// The hub in a controller is the kernel's: it has its version, and as serial the controller's bus number.
		delete(out, "serial")
		delete(out, "bcdDevice")
	}
	return out
}

// linuxHub is the vendor of hubs that the kernel makes up: the Linux Foundation.
const linuxHub = "1d6b"

// deviceKey returns the name of a device in the text.
func (r Report) deviceKey(area, name string) string {
	fields := r.facts[area][name]
	switch area {
	case "disk":
		for _, disk := range r.Disks {
			if disk.Name == name {
				return r.diskKey(disk)
			}
		}
	case "nic", "virtio":
		return r.Place(lastPCI(fields["path"]))
	case "pci":
		return r.Place(name)
	case "port":
		return r.Place(lastPCI(fields["path"])) + ":" + name[strings.LastIndex(name, "p")+1:]
	case "usb":
		return r.Place(lastPCI(fields["path"])) + ":" + usbPort(name, fields)
	case "input":
		if place := r.Place(lastPCI(fields["path"])); place != "" {
			return place
		}
		return strings.TrimPrefix(fields["path"], "/sys/devices/")
	case "tpm", "watchdog":
		return ""
	}
	return name
}

func (r Report) diskKey(disk Disk) string {
	key := disk.Bus + ":" + r.Place(disk.PCI)
	switch disk.Bus {
	case "sata":
		return key + ":" + strconv.Itoa(disk.Port)
	case "usb":
		for _, device := range slices.Backward(strings.Split(disk.Path, "/")) {
			if fields, found := r.facts["usb"][device]; found {
				return key + ":" + usbPort(device, fields)
			}
		}
	}
	if _, unit, found := strings.Cut(disk.SCSI, ":"); found {
		_, unit, _ = strings.Cut(unit, ":") // without host and channel: target and unit
		return key + ":" + unit
	}
	return key
}

// usbPort is the way through hubs to a device, '3' or '3.1', or the speed of a controller's own hub, of which xHCI has two.
// A name is bus-port.port; buses are numbered as controllers answer.
func usbPort(name string, fields map[string]string) string {
	if _, port, found := strings.Cut(name, "-"); found {
		return port
	}
	return "hub-" + fields["speed"]
}

// withConfig adds to a PCI function's facts what its configuration space tells.
func withConfig(fields map[string]string) map[string]string {
	out := maps.Clone(fields)
	maps.Copy(out, configFacts(fields["config"]))
	if bars := barSizes(fields["resource"]); bars != "" {
		out["bars"] = bars
	}
	return out
}

// Namespace is how ACPI calls what is at a place: the root bus is PCI0, and each step has slot and function as one number.
func Namespace(place string) string {
	name := `\_SB_.PCI0`
	for _, step := range strings.Split(place, "/") {
		var slot, function uint
		if n, _ := fmt.Sscanf(step, "%x.%x", &slot, &function); n == 2 {
			name += fmt.Sprintf(".S%02X_", slot<<3|function)
		}
	}
	return name
}
