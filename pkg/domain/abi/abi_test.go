package abi_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/pkg/domain/abi"
	"github.com/kilnvm/kiln/pkg/record"
	"libvirt.org/go/libvirtxml"
)

// document is a small finished frontend.
const document = `<domain><name>g</name><uuid>5d307ca9-b3ef-428c-8861-06e72d69f223</uuid>
<genid>7f8f8c5e-0000-8000-8000-000000000001</genid><memory unit="KiB">1024</memory><vcpu>1</vcpu>
<sysinfo type="smbios"><system><entry name="manufacturer">Kiln</entry><entry name="serial">S-1</entry>
<entry name="uuid">5d307ca9-b3ef-428c-8861-06e72d69f223</entry></system></sysinfo>
<sysinfo type="fwcfg"><entry name="opt/com.coreos/config" file="/s/a.json"/></sysinfo>
<os firmware="efi"><type machine="pc-q35-7.2">hvm</type><firmware><feature enabled="no" name="secure-boot"/></firmware></os>
<clock offset="utc"><timer name="tsc" frequency="2000000000"/></clock>
<devices>
<disk type="file" device="disk" model="virtio"><target dev="vda" bus="virtio"/><alias name="ua-root"/>
<address type="pci" domain="0" bus="1" slot="0" function="0"/></disk>
<disk type="file" device="disk"><target dev="sda" bus="scsi"/><alias name="ua-data"/><address type="drive" controller="0" bus="0" target="0" unit="3"/></disk>
<controller type="pci" index="0" model="pcie-root"/>
<controller type="pci" index="1" model="pcie-root-port"><target chassis="1" port="16"/>
<address type="pci" domain="0" bus="0" slot="2" function="0" multifunction="on"/></controller>
<controller type="pci" index="2" model="pcie-root-port"><target chassis="2" port="17"/>
<address type="pci" domain="0" bus="0" slot="2" function="1"/></controller>
<interface type="null"><mac address="52:54:00:11:22:33"/><model type="e1000"/><alias name="ua-interface_root"/>
<address type="pci" domain="0" bus="0" slot="30" function="0"/></interface>
<channel type="pty"><target type="virtio" name="org.qemu.guest_agent.0"/><alias name="ua-guest-agent"/>
<address type="virtio-serial" controller="0" bus="0" port="1"/></channel>
<input type="tablet" bus="usb"><alias name="ua-pen"/><address type="usb" bus="0" port="2"/></input>
<video><model type="vga"/><alias name="ua-video"/><address type="pci" domain="0" bus="0" slot="1" function="0"/></video>
<rng model="virtio"><alias name="ua-rng"/><address type="ccw" cssid="0xfe" ssid="0" devno="0x001f"/></rng>
</devices></domain>`

func parse(t *testing.T, text string) *libvirtxml.Domain {
	t.Helper()
	var dom libvirtxml.Domain
	if err := dom.Unmarshal(text); err != nil {
		t.Fatal(err)
	}
	return &dom
}

func TestFreeze(t *testing.T) {
	t.Parallel()
	zero, one, two := uint(0), uint(1), uint(2)
	got := abi.Freeze(parse(t, document), "v1")
	want := record.Record{
		Defaults: "v1", Digest: got.Digest, UUID: "5d307ca9-b3ef-428c-8861-06e72d69f223", Serial: "S-1", Machine: "pc-q35-7.2",
		SMBIOS: map[string]string{"manufacturer": "Kiln"}, Video: "vga", FreePorts: 1, TSC: 2000000000,
		GenerationID: true, MACs: map[string]string{"root": "52:54:00:11:22:33"},
		Devices: map[string]record.Address{
			"disk.root": {PCI: "0000:01:00.0", Target: "vda"},
			"disk.data": {Drive: "0:0:0:3", Target: "sda"},
			// By kind and name: a disk of the same name is another key, whatever the aliases.
			"interface.root":      {PCI: "0000:00:1e.0"},
			"controller.pci.0":    {Index: &zero},
			"controller.pci.1":    {PCI: "0000:00:02.0", Index: &one},
			"controller.pci.2":    {PCI: "0000:00:02.1", Index: &two},
			"channel.guest-agent": {Serial: "0:0:1"},
			"input.pen":           {USB: "0:2"},
			"video.video":         {PCI: "0000:00:01.0"},
			"rng.rng":             {CCW: "fe.0.001f"},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	text, err := json.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	var back record.Record
	if err := json.Unmarshal(text, &back); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(got, back); diff != "" {
		t.Errorf("a record reads back differently (-written +read):\n%s", diff)
	}
}

// TestProject: the backend's work and libvirt's bookkeeping leave the projection alone; every change of hardware shows and is
// named.
func TestProject(t *testing.T) {
	t.Parallel()
	const loader = `<os><type machine="pc-q35-7.2">hvm</type><loader readonly="yes" type="pflash">/f/code.fd</loader>` +
		`<nvram template="/f/vars.fd">/s/vars.fd</nvram></os>`
	class := document[strings.Index(document, "<os "):strings.Index(document, "<clock")]
	for _, c := range []struct {
		name     string
		old, new string
		want     []string
	}{
		{"a source", `<target dev="vda"`, `<driver name="qemu" type="qcow2" cache="none" io="native" discard="unmap"/><source file="/x"/><target dev="vda"`, nil},
		{"firmware by path", class, loader, nil},
		{"a name and a hypervisor", "<domain><name>g", `<domain type="kvm"><name>h`, nil},
		{"a connection", `<interface type="null">`, `<interface type="user">`, nil},
		{"IO threads and pinning", "<vcpu>", `<iothreads>2</iothreads><cputune><vcpupin vcpu="0" cpuset="3"/></cputune><vcpu placement="static" cpuset="3">`, nil},
		{"huge pages", "<vcpu>", "<memoryBacking><hugepages/></memoryBacking><vcpu>", nil},
		{"an alias of QEMU on a controller", `<target chassis="1" port="16"/>`, `<target chassis="1" port="16"/><alias name="pci.1"/>`, nil},
		{"queues", `<target dev="vda"`, `<driver queues="4"/><target dev="vda"`, []string{"disk 'root' changes its driver.queues from none to '4'"}},
		{"a disk moves", `bus="1" slot="0"`, `bus="2" slot="0"`, []string{"disk 'root' moves from vda at 0000:01:00.0 to vda at 0000:02:00.0"}},
		{"a disk is renamed in the guest", `dev="vda"`, `dev="vdb"`, []string{"disk 'root' moves from vda at 0000:01:00.0 to vdb at 0000:01:00.0"}},
		{"a disk moves to another bus", `<target dev="vda" bus="virtio"/>`, `<target dev="sda" bus="sata"/>`, []string{
			"disk 'root' moves from vda at 0000:01:00.0 to sda at 0000:01:00.0, and changes its bus from 'virtio' to 'sata'"}},
		{"a MAC", "11:22:33", "11:22:34", []string{"interface 'root' changes its MAC from '52:54:00:11:22:33' to '52:54:00:11:22:34'"}},
		{"a device goes", `<input type="tablet" bus="usb"><alias name="ua-pen"/><address type="usb" bus="0" port="2"/></input>`, "",
			[]string{"input 'pen' is removed"}},
		{"a device comes", "<rng", `<watchdog model="i6300esb"><alias name="ua-dog"/></watchdog><rng`, []string{"watchdog 'dog' is added"}},
		{"the machine", "pc-q35-7.2", "pc-q35-8.0", []string{"the machine or firmware changes from 'pc-q35-7.2' to 'pc-q35-8.0'"}},
		{"secure boot", `enabled="no"`, `enabled="yes"`, []string{"the machine or firmware changes"}},
		{"queues and their sizes", `<target dev="vda"`, `<driver queues="4" queue_size="256" packed="on" ats="on"/><target dev="vda"`, []string{
			"disk 'root' changes its driver.queues from none to '4', its driver.queuesize from none to '256', its driver.ats from none to 'on', and 1 more"}},
		{"memory", ">1024<", ">2048<", []string{"the memory changes from '1 MiB' to '2 MiB'"}},
		{"memory of no round number", ">1024<", ">1025<", []string{"the memory changes from '1 MiB' to '1025 KiB'"}},
		{"the memory that it can get", `<memory `, `<maxMemory slots="16" unit="KiB">1048576</maxMemory><memory `,
			[]string{"the memory changes its maximum from none to '1 GiB'"}},
		{"NUMA nodes", `<clock`, `<cpu><numa><cell id="0" cpus="0" memory="1024" unit="KiB"/></numa></cpu><clock`,
			[]string{"the CPU changes", "the NUMA nodes change from none to 'CPUs 0 with 1 MiB'"}},
		{"a CPU of a model", `<clock`, `<cpu mode="custom"><model>EPYC</model></cpu><clock`, []string{"the CPU changes from none to 'EPYC'"}},
		{"CPUs", "<vcpu>1", "<vcpu>2", []string{"the number of CPUs changes from '1' to '2'"}},
		{"a serial", "S-1", "S-2", []string{"the system information (SMBIOS) changes"}},
		{"the path of a file of the firmware", "/s/a.json", "/t/b.json", nil},
		{"a file of the firmware as text", ` file="/s/a.json"/>`, `>{}</entry>`, nil},
		{"another file of the firmware", "opt/com.coreos/config", "opt/kiln/x", []string{"the firmware configuration (fw_cfg) changes"}},
		{"a restored guest", "7f8f8c5e-0000", "7f8f8c5e-0001", []string{"the generation ID changes"}},
		{"the clock", `offset="utc"`, `offset="localtime"`, []string{"the clock changes"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if !strings.Contains(document, c.old) {
				t.Fatalf("the document has no '%s'", c.old)
			}
			before, after := parse(t, document), parse(t, strings.Replace(document, c.old, c.new, 1))
			if diff := cmp.Diff(c.want, abi.Changes(before, after)); diff != "" {
				t.Errorf("changes (-want +got):\n%s", diff)
			}
			a, b, same := abi.Digest(before), abi.Digest(after), abi.Same(before, after)
			if (a == b) != (len(c.want) == 0) || same != (a == b) || !strings.HasPrefix(a, "sha256:") {
				t.Errorf("digests '%s' and '%s', same %v, %d changes", a, b, same, len(c.want))
			}
		})
	}
}

// TestOrder: the order of devices in a document has no meaning.
func TestOrder(t *testing.T) {
	t.Parallel()
	dom, other := parse(t, document), parse(t, document)
	disks := other.Devices.Disks
	disks[0], disks[1] = disks[1], disks[0]
	if abi.Digest(dom) != abi.Digest(other) {
		t.Error("the digest depends on the order of disks")
	}
	if got := other.Devices.Disks[0].Alias.Name; got != "ua-data" {
		t.Errorf("projecting reordered the given domain: first disk is '%s'", got)
	}
}

func TestName(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		kind  string
		alias *libvirtxml.DomainAlias
		want  string
	}{
		{"disk", abi.BoundAlias("disk", "root"), "root"},
		{"interface", abi.BoundAlias("interface", "interface_root"), "interface_root"},
		{"interface", abi.BoundAlias("interface", "disk_root"), "disk_root"},
		{"interface", abi.BoundAlias("interface", "interface"), "interface"},
		{"interface", abi.QualifiedAlias("interface", "root"), "root"},
		{"input", abi.Alias("input_a"), "a"}, // as in the records of guests that have run
		{"disk", nil, ""},
	} {
		if got := abi.Name(c.kind, c.alias); got != c.want {
			t.Errorf("%v is '%s', want '%s'", c.alias, got, c.want)
		}
	}
}

// TestCPUWords: what differs between two CPUs is named, and the width of addresses is named only as a part of the memory.
func TestCPUWords(t *testing.T) {
	t.Parallel()
	const epyc = `mode="custom"><model>EPYC</model><vendor>AMD</vendor><feature policy="require" name="svm"/>`
	for _, test := range []struct{ before, after, want string }{
		{`mode="host-model">`, epyc, "the CPU changes from 'host-model' to 'EPYC'"},
		{epyc, `mode="host-passthrough">`, "the CPU changes from 'EPYC' to 'host-passthrough'"},
		{`mode="host-model">`, `mode="host-passthrough">`, "the CPU changes from 'host-model' to 'host-passthrough'"},
		{epyc, strings.Replace(epyc, "EPYC", "Milan", 1), "the CPU changes: the model from 'EPYC' to 'Milan'"},
		{epyc, strings.Replace(epyc, "svm", "clwb", 1), "the CPU changes: without svm, with clwb"},
		{epyc, strings.Replace(epyc, "require", "disable", 1), "the CPU changes: without svm"},
		{`mode="host-model">`, `mode="host-model"><feature policy="require" name="vmx"/>`, "the CPU changes: with vmx"},
		{epyc, epyc + `<maxphysaddr mode="emulate" bits="46"/>`, "the memory changes"},
	} {
		var domains [2]libvirtxml.Domain
		for i, cpu := range []string{test.before, test.after} {
			if err := domains[i].Unmarshal(`<domain type="kvm"><cpu ` + cpu + `</cpu></domain>`); err != nil {
				t.Fatal(err)
			}
		}
		changes := abi.Compare(&domains[0], &domains[1])
		if len(changes) != 1 || changes[0].Text != test.want {
			t.Errorf("%s to %s: %+v, want '%s'", test.before, test.after, changes, test.want)
		}
		if cpu := strings.HasPrefix(test.want, "the CPU"); cpu && (changes[0].Part != record.PartCPU || changes[0].Verdict != record.Breaks) {
			t.Errorf("%s: %+v", test.want, changes[0])
		}
	}
}
