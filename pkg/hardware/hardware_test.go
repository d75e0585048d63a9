package hardware_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/kilnvm/kiln/pkg/address"
	"github.com/kilnvm/kiln/pkg/hardware"
	"github.com/kilnvm/kiln/test/golden"
	v1 "kubevirt.io/api/core/v1"
)

// TestBusesFor: the buses that an error offers are those that the architecture and the kind of drive have.
func TestBusesFor(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ architecture, target, want string }{
		{"amd64", "disk", "[sata scsi usb virtio]"}, {"amd64", "cdrom", "[sata scsi usb]"}, {"amd64", "lun", "[scsi]"},
		{"arm64", "disk", "[scsi virtio]"}, {"arm64", "cdrom", "[scsi]"}, {"s390x", "disk", "[scsi virtio]"}, {"s390x", "lun", "[scsi]"},
		{"", "disk", "[sata scsi usb virtio]"}, {"riscv64", "cdrom", "[sata scsi usb]"},
	} {
		if got := fmt.Sprint(hardware.BusesFor(c.architecture, c.target)); got != c.want {
			t.Errorf("%s on '%s': %s, want %s", c.target, c.architecture, got, c.want)
		}
	}
}

// TestPortableBuses: trials of profiles take the first bus for a disk, and the second one for another trial.
func TestPortableBuses(t *testing.T) {
	t.Parallel()
	for target, want := range map[string]string{"disk": "[virtio scsi]", "lun": "[scsi]", "cdrom": "[scsi]"} {
		if got := fmt.Sprint(hardware.PortableBuses(target)); got != want {
			t.Errorf("%s: %s, want %s", target, got, want)
		}
	}
}

func TestModelsFor(t *testing.T) {
	t.Parallel()
	for architecture, want := range map[string]string{
		"amd64": "[e1000 e1000e igb ne2k_pci pcnet rtl8139 virtio]", "s390x": "[virtio]", "": "[e1000 e1000e igb ne2k_pci pcnet rtl8139 virtio]",
	} {
		if got := fmt.Sprint(hardware.ModelsFor(architecture)); got != want {
			t.Errorf("'%s': %s, want %s", architecture, got, want)
		}
	}
}

// TestUnknown: a name that the tables do not have is on no architecture, and is no drive.
func TestUnknown(t *testing.T) {
	t.Parallel()
	if b := hardware.Bus("ide"); b.Known() || b.On("amd64") || b.On("") || b.Has(hardware.Disk) || b.Address != "" {
		t.Errorf("bus 'ide' is %+v", *b)
	}
	if m := hardware.Model("vmxnet3"); m.On("amd64") || m.On("") || m.Virtio {
		t.Errorf("model 'vmxnet3' is %+v", *m)
	}
	if m := hardware.Model(""); m.Name != v1.VirtIO {
		t.Errorf("an interface without a model has '%s'", m.Name)
	}
}

// TestDiskBuses: what the packages that read the table rely on.
func TestDiskBuses(t *testing.T) {
	t.Parallel()
	for i, b := range hardware.DiskBuses {
		if hardware.Bus(b.Name) != b {
			t.Errorf("bus '%s' stands twice", b.Name)
		}
		if (b.Controller != nil) != (b.Address == hardware.OnController) || b.Controller != nil && b.Controller.Units == 0 {
			t.Errorf("bus '%s' has controllers if and only if its drives are units of them", b.Name)
		}
		if b.Prefix == "" || b.ShownSerial == 0 || !b.Has(hardware.Disk) {
			t.Errorf("bus '%s' lacks a prefix, the length of serial numbers or disks", b.Name)
		}
		for _, other := range hardware.DiskBuses[:i] {
			if b.Prefix != other.Prefix && (strings.HasPrefix(b.Prefix, other.Prefix) || strings.HasPrefix(other.Prefix, b.Prefix)) {
				t.Errorf("vda of '%s' could be a drive of '%s'", b.Name, other.Name)
			}
		}
	}
}

// TestPolicies: the policies that are judged while the webhook is down name the same buses and models.
func TestPolicies(t *testing.T) {
	t.Parallel()
	all := names(hardware.BusNames((*hardware.DiskBus).Known))
	cdroms, noCDROMs := names(hardware.BusesFor("", hardware.CDROM)), names(hardware.BusNames(func(b *hardware.DiskBus) bool { return !b.Has(hardware.CDROM) }))
	writable := names(hardware.BusNames(func(b *hardware.DiskBus) bool { return !b.ReadOnlyDisks }))
	onPCI := names(hardware.BusNames(func(b *hardware.DiskBus) bool { return b.Address == hardware.OnPCI }))
	ioThreads := names(hardware.BusNames(func(b *hardware.DiskBus) bool { return b.IOThreads }))
	models := hardware.ModelsFor("")
	withIDE := slices.Sorted(slices.Values(append(slices.Clone(all), "ide")))
	holds(t, "disks",
		"!(d.?disk.?bus.orValue('') in "+list(append([]string{""}, all...))+")",
		"d.?disk.?bus.or(d.?lun.?bus).or(d.?cdrom.?bus).orValue('') in "+list(append([]string{""}, withIDE...))+")",
		"the bus of domain.devices.disks must be "+words(all)+" (rule disks/bus)",
		"variables.disks.all(d, "+noneOf("d.?cdrom.?bus.orValue('')", noCDROMs)+")",
		"a cdrom must be on bus "+words(cdroms)+" (rule disks/cdrom-virtio)",
		noneOf("d.?disk.?bus.orValue('')", writable)+" || !d.?disk.?readonly",
		noneOf("d.?disk.?bus.orValue('')", onPCI)+" || d.?disk.?pciAddress",
		"d.?disk.?bus.or(d.?lun.?bus).or(d.?cdrom.?bus).orValue('') in "+
			list(append([]string{""}, ioThreads...))+")",
	)
	holds(t, "networks",
		"i.?model.orValue('') in "+list(append([]string{""}, models...))+")",
		"the model of domain.devices.interfaces must be "+words(models)+" (rule networks/model)",
	)
}

// holds checks that a policy has texts, however its lines are broken.
func holds(t *testing.T, policy string, texts ...string) {
	t.Helper()
	path := "../../manifests/policies/rules/" + policy + ".yaml"
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	joined := strings.Join(strings.Fields(string(content)), " ")
	for _, text := range texts {
		if !strings.Contains(joined, text) {
			t.Errorf("%s does not have\n%s", path, text)
		}
	}
}

func names(buses []v1.DiskBus) (out []string) {
	for _, b := range buses {
		out = append(out, string(b))
	}
	return out
}

// list is a list in CEL.
func list(values []string) string { return "['" + strings.Join(values, "', '") + "']" }

// noneOf returns the condition in CEL that a term is not one of some values.
func noneOf(term string, values []string) string {
	if len(values) == 1 {
		return term + " != '" + values[0] + "'"
	}
	return "!(" + term + " in " + list(values) + ")"
}

// words are an enumeration: a, b or c.
func words(values []string) string {
	last := len(values) - 1
	return strings.Join(values[:last], ", ") + " or " + values[last]
}

const busesHead = `# Hardware: disk buses and interface models

'make golden' writes this file from 'pkg/hardware'. [rules.md](rules.md) contains the rules that refuse other buses and models.

## Disk buses

Values of 'bus' in 'spec.domain.devices.disks[]'. On amd64, the default is 'sata' for disks and CD-ROMs. On other architectures, it is 'virtio' for disks
and 'scsi' for CD-ROMs. The default for LUNs is 'scsi'.

| bus | architectures | drives | controller has | hotplug | IO threads | read-only disks | block size | serial number |
|---|---|---|---|---|---|---|---|---|
`

const modelsHead = `
The column *hotplug* says whether a disk can be plugged into a running guest at this bus. The column *IO threads* says whether 'dedicatedIOThread' and
'ioThreadsPolicy' have an effect. A guest sees only the first bytes of a serial number.

## Interface models

Values of 'model' in 'spec.domain.devices.interfaces[]'. The default is 'virtio'.

| model | architectures | device | needs |
|---|---|---|---|
`

// TestPage writes the page from the tables.
func TestPage(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	text.WriteString(strings.ReplaceAll(busesHead, "'", "`"))
	for _, name := range hardware.BusNames((*hardware.DiskBus).Known) {
		b := hardware.Bus(name)
		controller, size := "one drive, a PCI device", "any"
		switch {
		case b.Controller != nil:
			controller = fmt.Sprintf("%d drives", b.Controller.Units)
		case b.Address == hardware.OnUSB:
			controller = fmt.Sprintf("%d USB devices", address.USBPorts)
		}
		if b.BlockSize > 0 {
			size = fmt.Sprintf("%d bytes", b.BlockSize)
		}
		fmt.Fprintf(&text, "| `%s` | %s | %s | %s | %s | %s | %s | %s | %d bytes |\n", b.Name, strings.Join(b.Architectures, ", "), strings.Join(b.Targets, ", "),
			controller, yes(b.Hotplug), yes(b.IOThreads), yes(b.ReadOnlyDisks), size, b.ShownSerial)
	}
	text.WriteString(strings.ReplaceAll(modelsHead, "'", "`"))
	for _, m := range hardware.InterfaceModels {
		device := "PCI Express"
		switch {
		case m.Virtio:
			device = "virtio"
		case m.Conventional:
			device = "conventional PCI"
		}
		fmt.Fprintf(&text, "| `%s` | %s | %s | %s |\n", m.Name, strings.Join(m.Architectures, ", "), device, needs(m.Libvirt, m.QEMU))
	}
	golden.Compare(t, "../../docs/reference/hardware.md", text.String())
}

func yes(so bool) string {
	if so {
		return "yes"
	}
	return "no"
}

func needs(libvirt, qemu string) string {
	if libvirt+qemu == "" {
		return ""
	}
	return "libvirt " + libvirt + ", QEMU " + qemu
}
