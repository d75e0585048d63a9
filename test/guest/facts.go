package guest

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// tree is a report's facts by area, name and field: "disk.vda.serial" is tree["disk"]["vda"]["serial"].
// The first failure to read a number is kept, so that the report's constructor stays a list.
type tree struct {
	areas map[string]map[string]map[string]string
	err   error
}

// newReport sorts facts into a Report. It fails if a number cannot be parsed.
func newReport(facts []fact) (Report, error) {
	t := &tree{areas: map[string]map[string]map[string]string{}}
	for _, f := range facts {
		t.addFact(f)
	}
	r := Report{
		Kernel:      t.onlyFact("kernel"),
		Cmdline:     t.onlyFact("cmdline"),
		Firmware:    t.onlyFact("firmware"),
		SecureBoot:  t.onlyFact("secureboot") == "1",
		ClockSource: t.onlyFact("clocksource"),
		CPUModel:    t.areas["cpu"]["model"][""],
		MemoryKiB:   t.parseNumber(t.areas["memory"]["total"]["kib"], 10),
		RAMBytes:    t.systemRAM(),
		CPUs:        t.readCPUs(),
		Disks:       buildEach(t, "disk", t.readDisk),
		NICs:        buildEach(t, "nic", t.readNIC),
		PCI:         buildEach(t, "pci", t.readPCI),
		USB:         buildEach(t, "usb", t.readUSB),
		DMI:         map[string]string{},
		ACPI:        map[string]int64{},
		Ports:       buildEach(t, "port", onlyField("name")),
		TPMs:        buildEach(t, "tpm", onlyField("version")),
		Watchdogs:   buildEach(t, "watchdog", onlyField("identity")),
		Inputs:      buildEach(t, "input", onlyField("name")),
		NUMA:        t.readNodes(),
		Files:       map[string]string{},
		Generation:  t.onlyFact("generation"),
		facts:       t.areas,
	}
	for name, fields := range t.areas["fwcfg"] {
		r.Files[name] = fields[""]
	}
	for name, fields := range t.areas["dmi"] {
		r.DMI[name] = fields[""]
	}
	for name, fields := range t.areas["acpi"] {
		size, _, _ := strings.Cut(fields[""], " ") // its digest is for Text
		r.ACPI[name] = t.parseNumber(size, 10)
	}
	return r, t.err
}

// addFact splits at the first and the last dot: PCI addresses and NIC names may hold dots of their own.
func (t *tree) addFact(f fact) {
	area, rest, _ := strings.Cut(f.key, ".")
	name, leaf := rest, ""
	if dot := strings.LastIndex(rest, "."); dot >= 0 && hasFields[area] {
		name, leaf = rest[:dot], rest[dot+1:]
	}
	if t.areas[area] == nil {
		t.areas[area] = map[string]map[string]string{}
	}
	if t.areas[area][name] == nil {
		t.areas[area][name] = map[string]string{}
	}
	t.areas[area][name][leaf] = f.value
}

// hasFields tells the areas whose keys end in a field; in the others everything after the area is the name.
var hasFields = map[string]bool{
	"cpu": true, "memory": true, "disk": true, "nic": true, "pci": true, "usb": true,
	"port": true, "tpm": true, "watchdog": true, "input": true, "virtio": true, "node": true,
}

func (t *tree) onlyFact(area string) string { return t.areas[area][""][""] }

// parseNumber reads a number in a base, with or without '0x'. It returns 0 for an empty text; the first text that is no number becomes t.err.
func (t *tree) parseNumber(text string, base int) int64 {
	// Some virtual files print -1 or nothing for "does not apply".
	if text == "" {
		return 0
	}
	n, err := strconv.ParseInt(strings.TrimPrefix(text, "0x"), base, 64)
	if err != nil && t.err == nil {
		t.err = fmt.Errorf("guest report: %w", err)
	}
	return n
}

// buildEach builds one value per name of an area, in the order of the names.
func buildEach[T any](t *tree, area string, build func(name string, fields map[string]string) T) []T {
	var names []string
	for name := range t.areas[area] {
		names = append(names, name)
	}
	slices.Sort(names)
	var out []T
	for _, name := range names {
		out = append(out, build(name, t.areas[area][name]))
	}
	return out
}

// onlyField returns a constructor for areas of which a report has only one field.
func onlyField(name string) func(string, map[string]string) string {
	return func(_ string, fields map[string]string) string { return fields[name] }
}

// systemRAM adds up the ranges that the firmware's memory map calls "System RAM"; ends are inclusive.
func (t *tree) systemRAM() int64 {
	var sum int64
	for _, fields := range t.areas["memmap"] {
		words := strings.SplitN(fields[""], " ", 3)
		if len(words) == 3 && words[2] == "System RAM" {
			sum += t.parseNumber(words[1], 16) - t.parseNumber(words[0], 16) + 1
		}
	}
	return sum
}

// readNodes returns the NUMA nodes in the order of their numbers. Their memory is counted in blocks.
func (t *tree) readNodes() []Node {
	// block_size_bytes is hexadecimal without '0x' (Linux, Documentation/admin-guide/mm/memory-hotplug.rst).
	block := t.parseNumber(t.areas["memory"]["block"]["bytes"], 16)
	var out []Node
	for name, fields := range t.areas["node"] {
		out = append(out, Node{Number: int(t.parseNumber(name, 10)), CPUs: fields["cpulist"], Bytes: t.parseNumber(fields["blocks"], 10) * block})
	}
	slices.SortFunc(out, func(a, b Node) int { return a.Number - b.Number })
	return out
}

// readCPUs returns the CPUs in the order of their numbers. The name 'model' in this area is the CPU model of all of them.
func (t *tree) readCPUs() []CPU {
	var out []CPU
	for name, fields := range t.areas["cpu"] {
		if name == "model" {
			continue
		}
		out = append(out, CPU{
			Number: int(t.parseNumber(name, 10)),
			Socket: int(t.parseNumber(fields["socket"], 10)),
			Die:    int(t.parseNumber(fields["die"], 10)),
			Core:   int(t.parseNumber(fields["core"], 10)),
		})
	}
	slices.SortFunc(out, func(a, b CPU) int { return a.Number - b.Number })
	return out
}

// readDisk reads a block device. Its bus follows from its path in sysfs. The order of the cases matters: libata and usb-storage register SCSI
// hosts, so that their disks have '/host' in the path too.
func (t *tree) readDisk(name string, f map[string]string) Disk {
	d := Disk{
		Name: name, Serial: f["serial"], Model: f["model"], Path: f["path"], PCI: lastPCI(f["path"]), Link: f["link"],
		// The kernel counts in 512 bytes whatever the block size.
		Bytes:         t.parseNumber(f["sectors"], 10) * 512,
		ReadOnly:      f["readonly"] == "1",
		Removable:     f["removable"] == "1",
		LogicalBlock:  t.parseNumber(f["logical"], 10),
		PhysicalBlock: t.parseNumber(f["physical"], 10),
		Queues:        int(t.parseNumber(f["queues"], 10)),
		Port:          -1,
	}
	switch {
	case f["ataport"] != "":
		// port_no counts the ports of one controller, from 1. The number in 'ataN' counts the ports of all controllers.
		d.Bus, d.Port = "sata", int(t.parseNumber(f["ataport"], 10))-1
	case strings.Contains(d.Path, "/usb"):
		d.Bus = "usb"
	case strings.Contains(d.Path, "/nvme"):
		d.Bus = "nvme"
	case strings.Contains(d.Path, "/host"):
		d.Bus = "scsi"
	default:
		d.Bus = "virtio"
	}
	// A SCSI device is called host:channel:target:lun in sysfs.
	if last := d.Path[strings.LastIndex(d.Path, "/")+1:]; strings.Count(last, ":") == 3 {
		d.SCSI = last
	}
	return d
}

// readNIC reads a network interface. A device without a driver has none, and so no facts here.
func (t *tree) readNIC(name string, f map[string]string) NIC {
	return NIC{
		Name: name, MAC: f["mac"], PCI: lastPCI(f["path"]), Driver: f["driver"], Predictable: f["predictable"],
		MTU: int(t.parseNumber(f["mtu"], 10)), Queues: int(t.parseNumber(f["queues"], 10)),
	}
}

// readPCI reads a function. Its numbers lose their '0x', as lspci writes them. The parent is the last PCI function above in the path, which is the bridge.
func (t *tree) readPCI(name string, f map[string]string) PCIFunction {
	above := f["path"][:max(strings.LastIndex(f["path"], "/"), 0)]
	hex := func(key string) string { return strings.TrimPrefix(f[key], "0x") }
	return PCIFunction{
		Address: name, Parent: lastPCI(above), Driver: f["driver"],
		Vendor: hex("vendor"), Device: hex("device"), Class: hex("class"),
		SubsystemVendor: hex("subsystem_vendor"), Subsystem: hex("subsystem_device"),
	}
}

func (t *tree) readUSB(name string, f map[string]string) USBDevice {
	return USBDevice{Name: name, Vendor: f["vendor"], Product: f["product"], Title: f["name"], PCI: lastPCI(f["path"])}
}

// pciAddress is domain:bus:slot.function as sysfs spells it.
var pciAddress = regexp.MustCompile(`[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]`)

// lastPCI returns the function nearest to the device at the end of a sysfs path, "" if the path has no function.
func lastPCI(path string) string {
	all := pciAddress.FindAllString(path, -1)
	if len(all) == 0 {
		return ""
	}
	return all[len(all)-1]
}
