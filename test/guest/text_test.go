package guest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// sample has one device of each kind whose place is made up of several facts.
var sample = map[string]string{
	"kernel": "6.1", "clocksource": "tsc", "firmware": "bios", "memory.total.kib": "1", "memory.block.bytes": "8000000", "node.0.blocks": "4",
	"pci.0000:00:02.1.path": "/sys/devices/pci0000:00/0000:00:02.1", "pci.0000:00:02.1.vendor": "0x1b36",
	"pci.0000:05:00.0.path": "/sys/devices/pci0000:00/0000:00:02.1/0000:05:00.0", "pci.0000:05:00.0.resource": "0x0 0x0 0x0 0x1000 0x1fff 0x40200",
	"pci.0000:05:00.0.driver": "virtio-pci",
	"disk.sdb.path":           "/sys/devices/pci0000:00/0000:00:02.1/0000:05:00.0/virtio3/host7/target7:0:2/7:0:2:1", "disk.sdb.serial": "S = 1",
	"nic.eth3.path": "/sys/devices/pci0000:00/0000:00:02.1/0000:05:00.0/virtio4", "nic.eth3.mac": "52:54:00:00:00:01",
	"port.vport2p3.path": "/sys/devices/pci0000:00/0000:00:02.1/0000:05:00.0/virtio5", "port.vport2p3.name": "agent",
	"usb.usb2.path": "/sys/devices/pci0000:00/0000:00:02.1/usb2", "usb.usb2.vendor": "1d6b", "usb.usb2.speed": "480", "usb.usb2.serial": "0000:05:00.0",
	"usb.2-1.4.path": "/sys/devices/pci0000:00/0000:00:02.1/usb2/2-1/2-1.4", "usb.2-1.4.serial": "stick",
	"namespace.\\_SB_.PCI0.S11_": "0x00020001", "bootorder": "/pci@i0cf8/pci-bridge@2,1/scsi@0/disk@0,0 HALT",
	"smbios": "010600010102" + "416200430000" + "7f04007f" + "0000" + "0102",
}

const sampleText = `bootorder=/pci@i0cf8/pci-bridge@2,1/scsi@0/disk@0,0 HALT
disk scsi:02.1/00.0:2:1 serial=S = 1
firmware=bios
memory block bytes=8000000
namespace \_SB_.PCI0.S11_=0x00020001
nic 02.1/00.0 mac=52:54:00:00:00:01
node 0 blocks=4
pci 02.1 vendor=0x1b36
pci 02.1/00.0 bars=1:0x1000m
port 02.1/00.0:3 name=agent
smbios 1.0100=010600010102 "Ab" "C"
smbios 127.7f00=7f04007f
smbios rest=0102
usb 02.1:1.4 serial=stick
usb 02.1:hub-480 speed=480
usb 02.1:hub-480 vendor=1d6b
`

func text(t *testing.T, facts map[string]string) string {
	t.Helper()
	var out strings.Builder
	out.WriteString(beginMarker + "\n")
	for _, key := range slices.Sorted(maps.Keys(facts)) {
		fmt.Fprintf(&out, "@ %s=%s\n", key, facts[key])
	}
	fmt.Fprintf(&out, "%s %d\n", endMarker, len(facts))
	report, err := ParseReport(strings.NewReader(out.String()))
	if err != nil {
		t.Fatal(err)
	}
	return report.Text()
}

func TestText(t *testing.T) {
	if diff := cmp.Diff(sampleText, text(t, sample)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestTextNotices: each change of hardware changes the text, and nothing else does.
func TestTextNotices(t *testing.T) {
	for _, c := range []struct {
		why, key, value string
		stays           bool
	}{
		{"a disk with another serial", "disk.sdb.serial", "T", false},
		{"another model behind a bridge", "pci.0000:00:02.1.vendor", "0x8086", false},
		{"a larger register", "pci.0000:05:00.0.resource", "0x0 0x0 0x0 0x1000 0x2fff 0x40200", false},
		{"a disk on another unit", "disk.sdb.path", strings.Replace(sample["disk.sdb.path"], "7:0:2:1", "7:0:2:2", 1), false},
		{"a port that moves", "pci.0000:00:02.1.path", "/sys/devices/pci0000:00/0000:00:03.0/0000:00:02.1", false},
		{"another MAC", "nic.eth3.mac", "52:54:00:00:00:02", false},
		{"a new device", "tpm.tpm0.version", "2", false},
		{"less memory", "node.0.blocks", "3", false},
		{"another boot device", "bootorder", "/pci@i0cf8/pci-bridge@3,0/scsi@0/disk@0,0 HALT", false},
		{"another kernel", "kernel", "6.2", true},
		{"a register at another address", "pci.0000:05:00.0.resource", "0x0 0x0 0x0 0x7000 0x7fff 0x40200", true},
		{"another number of the SCSI host", "disk.sdb.path", strings.ReplaceAll(sample["disk.sdb.path"], "7:0:2:1", "9:0:2:1"), true},
		{"a little more for the kernel", "memory.total.kib", "2", true},
	} {
		facts := maps.Clone(sample)
		facts[c.key] = c.value
		if got := text(t, facts); (got == sampleText) != c.stays {
			t.Errorf("%s: the text is\n%s", c.why, cmp.Diff(sampleText, got))
		}
	}
}

// unaccounted are the facts of a report that are neither part of the text nor left out with a reason.
func unaccounted(r Report) (keys []string) {
	for area, names := range r.facts {
		for _, fields := range names {
			for field := range fields {
				key := strings.TrimSuffix(area+"."+field, ".")
				switch _, left := omitted[key]; {
				case left, omitted[area] != "", slices.Contains(shown[area], "*"), slices.Contains(shown[area], field):
				default:
					keys = append(keys, key)
				}
			}
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

func TestConfigFacts(t *testing.T) {
	// A port in slot 2 as QEMU shows it: express at 0x54, then MSI-X, then its subsystem.
	space := make([]byte, 256)
	space[0x34], space[0x3d] = 0x54, 1
	copy(space[0x54:], []byte{0x10, 0x48, 0x42, 0x01})
	space[0x54+0x0f] = 17
	copy(space[0x54+0x14:], []byte{0x7b, 0, 2, 0})
	copy(space[0x48:], []byte{0x11, 0x40, 0x02, 0})
	copy(space[0x40:], []byte{0x0d, 0, 0, 0})
	want := map[string]string{"interrupt": "1", "capabilities": "10,11,0d", "port": "17", "slot": "7b000200", "hotplug": "on", "vectors": "3"}
	if diff := cmp.Diff(want, configFacts(fmt.Sprintf("%x", space))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	space[0x40+1] = 0x54 // a list that goes in a circle ends
	if got := configFacts(fmt.Sprintf("%x", space)); len(got["capabilities"]) > 48*3 {
		t.Errorf("capabilities are %s", got["capabilities"])
	}
	for _, none := range []string{"", "361b", "not hexadecimal"} {
		if got := configFacts(none); got != nil {
			t.Errorf("'%s' has facts %v", none, got)
		}
	}
}
