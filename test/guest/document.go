package guest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/utils/cpuset"
	"libvirt.org/go/libvirtxml"
)

// Described returns the lines of Text that an amd64 guest on q35 will report, as far as its domain document determines them: the facts listed in says, and no
// others, such as the features of a virtio device. Devices must have their addresses.
func Described(dom *libvirtxml.Domain) []string {
	d := &document{Domain: dom, ports: map[uint]string{0: ""}}
	// The bridges come first, because the place of every other PCI device follows from theirs.
	d.readBridges()
	d.describeMachine()
	d.describeCPUs()
	d.describeNodes()
	d.describeChipset()
	d.describeControllers()
	d.describeDisks()
	d.describeNICs()
	d.describeOthers()
	slices.Sort(d.lines)
	return d.lines
}

// Says returns the lines of a text that a document describes.
func Says(text string) (lines []string) {
	for line := range strings.Lines(text) {
		left, _, _ := strings.Cut(line, "=")
		area, rest, _ := strings.Cut(left, " ")
		fields, described := says[area]
		if described && (fields == nil || slices.Contains(fields, rest[strings.LastIndex(rest, " ")+1:])) {
			lines = append(lines, strings.TrimSuffix(line, "\n"))
		}
	}
	return lines
}

// says lists by area the facts that a document determines; nil means all facts of an area.
var says = map[string][]string{
	"cpu":      {"socket", "core"}, // Linux numbers dies within the machine on AMD, and within the socket on Intel
	"possible": nil,
	"node":     nil,
	"firmware": nil,
	"dmi":      {"sys_vendor", "product_name", "product_version", "product_serial", "product_uuid", "product_sku", "product_family"},
	"pci":      {"vendor", "device", "hotplug", "port"},
	"disk":     {"serial", "readonly", "removable", "logical", "physical"},
	"nic":      {"mac", "queues"},
	"port":     nil,
	"tpm":      {"version"},
	"watchdog": {"identity"},
	"usb":      {"vendor", "product", "serial"},
	"serial":   nil,
}

type document struct {
	*libvirtxml.Domain
	// ports are the places of bridges by their index, which devices have as bus.
	ports map[uint]string
	lines []string
}

// addLine adds one line, in the form of Text.
func (d *document) addLine(format string, args ...any) {
	d.lines = append(d.lines, fmt.Sprintf(format, args...))
}

// readBridges reads the bridges in the order of their indexes, each after the bridge that it is behind.
func (d *document) readBridges() {
	for _, c := range d.Devices.Controllers {
		if c.Type == "pci" && c.Address != nil {
			d.ports[*c.Index] = d.placeOf(c.Address)
		}
	}
}

// placeOf returns the way to a PCI device, empty for one that has no PCI address.
// A document's bus is the index of a controller, and not a number that the guest would see.
func (d *document) placeOf(a *libvirtxml.DomainAddress) string {
	if a == nil || a.PCI == nil {
		return ""
	}
	at := fmt.Sprintf("%02x.%x", *a.PCI.Slot, *a.PCI.Function)
	if above := d.ports[*a.PCI.Bus]; above != "" {
		return above + "/" + at
	}
	return at
}

// describeMachine says firmware and SMBIOS, with the names of /sys/class/dmi/id. The keys of the second map are the names in libvirt's sysinfo.
func (d *document) describeMachine() {
	firmware := "bios"
	if d.OS.Firmware == "efi" || d.OS.Loader != nil {
		firmware = "efi"
	}
	d.addLine("firmware=%s", firmware)
	dmi := map[string]string{
		// What a machine says of itself unless told otherwise.
		"sys_vendor": "QEMU", "product_name": "Standard PC (Q35 + ICH9, 2009)", "product_version": d.OS.Type.Machine,
		"product_serial": "", "product_sku": "", "product_family": "", "product_uuid": strings.ToLower(d.UUID),
	}
	names := map[string]string{"manufacturer": "sys_vendor", "product": "product_name", "version": "product_version",
		"serial": "product_serial", "uuid": "product_uuid", "sku": "product_sku", "family": "product_family"}
	for _, info := range d.SysInfo {
		if info.SMBIOS == nil || info.SMBIOS.System == nil {
			continue
		}
		for _, entry := range info.SMBIOS.System.Entry {
			dmi[names[entry.Name]] = entry.Value
		}
	}
	for name, value := range dmi {
		d.addLine("dmi %s=%s", name, value)
	}
}

// cpuCounts returns the number of CPUs at the start, and the most that they can grow to.
func (d *document) cpuCounts() (current, most uint) {
	return cmp.Or(d.VCPU.Current, d.VCPU.Value), d.VCPU.Value
}

// describeCPUs follows libvirt's topology in the order of QEMU's CPU indexes: threads vary first, then cores, then sockets.
func (d *document) describeCPUs() {
	current, most := d.cpuCounts()
	d.addLine("possible=%s", numbersBetween(0, most))
	cores, threads := uint(1), uint(1)
	if d.CPU != nil && d.CPU.Topology != nil {
		cores, threads = uint(d.CPU.Topology.Cores), uint(d.CPU.Topology.Threads)
	}
	for i := range current {
		d.addLine("cpu %d socket=%d", i, i/(cores*threads))
		d.addLine("cpu %d core=%d", i, i/threads%cores)
	}
}

// numbersBetween returns the numbers from first up to end, without end.
func numbersBetween(first, end uint) cpuset.CPUSet {
	var numbers []int
	for n := first; n < end; n++ {
		numbers = append(numbers, int(n))
	}
	return cpuset.New(numbers...)
}

// block is the kernel's unit of memory on machines of less than 64 GiB, in KiB.
const block = 128 << 10

// describeNodes: without cells there is one node with everything.
func (d *document) describeNodes() {
	current, most := d.cpuCounts()
	if d.CPU == nil || d.CPU.Numa == nil {
		d.addLine("node 0 cpulist=%s", numbersBetween(0, current))
		d.addLine("node 0 blocks=%d", (d.Memory.Value+block-1)/block)
		d.addLine("node 0 distance=10")
		return
	}
	cells := d.CPU.Numa.Cell
	for i, cell := range cells {
		online, distances := cpuset.New(), []string{}
		if cpus, err := cpuset.Parse(cell.CPUs); err == nil { // libvirt's own list, or the lines differ
			online = cpus.Difference(numbersBetween(current, most))
		}
		for j := range cells {
			distance := map[bool]int{true: 10, false: 20}[i == j] // ACPI's own where none are told
			if cell.Distances != nil {
				distance = int(cell.Distances.Siblings[j].Value)
			}
			distances = append(distances, fmt.Sprint(distance))
		}
		d.addLine("node %d cpulist=%s", i, online)
		d.addLine("node %d blocks=%d", i, (cell.Memory+block-1)/block)
		d.addLine("node %d distance=%s", i, strings.Join(distances, " "))
	}
}
