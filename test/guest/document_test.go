package guest

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"libvirt.org/go/libvirtxml"
)

// described is a frontend with a device of each kind of address.
const described = `<domain><uuid>5d307ca9-b3ef-428c-8861-06e72d69f223</uuid><memory unit="KiB">524288</memory><vcpu current="2">4</vcpu>
<sysinfo type="smbios"><system><entry name="manufacturer">Kiln</entry></system></sysinfo><os><type machine="pc-q35-7.2">hvm</type></os>
<cpu><topology sockets="2" cores="1" threads="2"/><numa><cell id="0" cpus="0,2-3" memory="262144" unit="KiB"/>
<cell id="1" cpus="1" memory="262144" unit="KiB"/></numa></cpu>
<devices>
<controller type="pci" index="0" model="pcie-root"/>
<controller type="pci" index="1" model="pcie-root-port"><target chassis="1" port="16" hotplug="off"/>
<address type="pci" domain="0" bus="0" slot="2" function="0"/></controller>
<controller type="pci" index="2" model="pcie-root-port"><target chassis="2" port="17"/>
<address type="pci" domain="0" bus="0" slot="2" function="1"/></controller>
<controller type="scsi" index="0" model="virtio-non-transitional"><address type="pci" domain="0" bus="2" slot="0" function="0"/></controller>
<disk device="disk"><blockio logical_block_size="4096"/><target dev="vda" bus="virtio"/><serial>A</serial>
<address type="pci" domain="0" bus="1" slot="0" function="0"/></disk>
<disk device="cdrom"><target dev="sda" bus="scsi"/><readonly/><serial>B</serial><address type="drive" controller="0" bus="0" target="0" unit="7"/></disk>
<watchdog model="i6300esb"><address type="pci" domain="0" bus="0" slot="30" function="0"/></watchdog>
</devices></domain>`

// linesOf are those that every q35 machine has left out.
func linesOf(t *testing.T, xml string) string {
	t.Helper()
	var dom libvirtxml.Domain
	if err := dom.Unmarshal(xml); err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, line := range Described(&dom) {
		if !strings.HasPrefix(line, "pci 00.0") && !strings.HasPrefix(line, "pci 1f.") && !strings.HasPrefix(line, "dmi product_") {
			out = append(out, line)
		}
	}
	return strings.Join(out, "\n") + "\n"
}

const describedLines = `cpu 0 core=0
cpu 0 socket=0
cpu 1 core=0
cpu 1 socket=0
disk scsi:02.1/00.0:0:7 logical=2048
disk scsi:02.1/00.0:0:7 physical=2048
disk scsi:02.1/00.0:0:7 readonly=1
disk scsi:02.1/00.0:0:7 removable=1
disk scsi:02.1/00.0:0:7 serial=
disk virtio:02.0/00.0 logical=4096
disk virtio:02.0/00.0 physical=512
disk virtio:02.0/00.0 readonly=0
disk virtio:02.0/00.0 removable=0
disk virtio:02.0/00.0 serial=A
dmi sys_vendor=Kiln
firmware=bios
node 0 blocks=2
node 0 cpulist=0
node 0 distance=10 20
node 1 blocks=2
node 1 cpulist=1
node 1 distance=20 10
pci 02.0 device=0x000c
pci 02.0 hotplug=off
pci 02.0 port=16
pci 02.0 vendor=0x1b36
pci 02.0/00.0 device=0x1042
pci 02.0/00.0 vendor=0x1af4
pci 02.1 device=0x000c
pci 02.1 hotplug=on
pci 02.1 port=17
pci 02.1 vendor=0x1b36
pci 02.1/00.0 device=0x1048
pci 02.1/00.0 vendor=0x1af4
pci 1e.0 device=0x25ab
pci 1e.0 vendor=0x8086
possible=0-3
watchdog identity=i6300ESB timer
`

func TestDescribed(t *testing.T) {
	if diff := cmp.Diff(describedLines, linesOf(t, described)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(strings.Split(strings.TrimSpace(describedLines), "\n"), Says(describedLines+"acpi APIC=1 2\npci 02.0 bars=0:0x1000m\n")); diff != "" {
		t.Errorf("what a document says of the text (-want +got):\n%s", diff)
	}
}

// TestDescribedNotices: a document that says something else has other lines.
func TestDescribedNotices(t *testing.T) {
	for _, change := range [][2]string{
		{`bus="1" slot="0"`, `bus="2" slot="1"`}, {`unit="7"`, `unit="6"`}, {`>A<`, `>B<`}, {`hotplug="off"`, ""}, {`port="16"`, `port="18"`},
		{`current="2"`, `current="3"`}, {`memory="262144"`, `memory="131072"`},
		{"0,2-3", "0-1"}, {`logical_block_size="4096"`, ""}, {`<readonly/>`, ""}, {"Kiln", "Other"}, {`slot="30"`, `slot="29"`},
		{`model="i6300esb"`, `model="bell"`}, {`slot="2" function="1"`, `slot="3" function="0"`},
	} {
		if strings.Count(described, change[0]) == 0 {
			t.Fatalf("nothing to change: %s", change[0])
		}
		if linesOf(t, described) == linesOf(t, strings.Replace(described, change[0], change[1], 1)) {
			t.Errorf("'%s' instead of '%s' is not noticed", change[1], change[0])
		}
	}
}
