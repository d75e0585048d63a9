package kubevirt

import (
	"fmt"
	"strings"
	"testing"

	"github.com/beevik/etree"
	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/pkg/record"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	v1 "kubevirt.io/api/core/v1"
)

func vmi() *v1.VirtualMachineInstance {
	return &v1.VirtualMachineInstance{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{}}, Spec: v1.VirtualMachineInstanceSpec{Architecture: "amd64"}}
}

// domain is one whose devices are these elements.
func domain(machine string, devices ...string) []byte {
	return []byte("<domain type='kvm'><name>ns_vm</name><os><type arch='x86_64' machine='" + machine + "'>hvm</type></os><devices>" +
		strings.Join(devices, "") + "</devices></domain>")
}

// frozen is a record with root ports 1 to the number, eight to a slot from 2 on, and these devices, each 'key place'.
func frozen(ports uint, devices ...string) *record.Record {
	out := &record.Record{Defaults: "1", Digest: "sha256:" + strings.Repeat("0", 64), Machine: "pc-q35-7.2", Devices: map[string]record.Address{}}
	for i := range ports {
		out.Devices[record.ControllerKey("pci", i+1)] = record.Address{PCI: fmt.Sprintf("0000:00:%02x.%d", 2+i/8, i%8)}
	}
	for _, text := range devices {
		key, place, _ := strings.Cut(text, " ")
		kind, place, _ := strings.Cut(place, " ")
		a := record.Address{}
		switch kind {
		case "pci":
			a.PCI = "0000:" + place
		case "drive":
			a.Drive = place
		case "usb":
			a.USB = place
		case "serial":
			a.Serial = place
		case "ccw":
			a.CCW = place
		case "expander":
			a.PCI, a.Expander = "0000:00:1e.0", place
		}
		out.Devices[key] = a
	}
	return out
}

// places is where each element of a domain is: its tag, and what names it, to the values of its address.
func places(t *testing.T, xml []byte) map[string]string {
	t.Helper()
	doc := etree.NewDocument()
	if err := doc.ReadFromBytes(xml); err != nil {
		t.Fatal(err)
	}
	out := map[string]string{"machine": doc.FindElement("domain/os/type").SelectAttrValue("machine", "")}
	for i, e := range doc.FindElement("domain/devices").ChildElements() {
		name := e.Tag
		switch alias, target := e.SelectElement("alias"), e.SelectElement("target"); {
		case alias != nil:
			name += " " + alias.SelectAttrValue("name", "")
		case e.Tag == "controller":
			name += " " + e.SelectAttrValue("type", "") + e.SelectAttrValue("index", "")
		case target != nil:
			name += " " + target.SelectAttrValue("dev", "") + target.SelectAttrValue("name", "")
		case e.Tag == "redirdev":
			name += fmt.Sprint(i)
		}
		at := e.SelectElement("address")
		if at == nil {
			out[name] = ""
			continue
		}
		text := ""
		for _, a := range at.Attr {
			if a.Key != "type" && a.Key != "domain" {
				text += " " + strings.ReplaceAll(a.Value, "0x", "")
			}
		}
		out[name] = strings.TrimSpace(text)
	}
	return out
}

const (
	nic     = "<interface type='ethernet'><model type='virtio-non-transitional'/><target dev='tap0' managed='no'/><alias name='ua-default'/></interface>"
	nic2    = "<interface type='ethernet'><model type='virtio-non-transitional'/><target dev='tap1' managed='no'/><alias name='ua-second'/></interface>"
	root    = "<disk type='block' device='disk'><target dev='vda' bus='virtio'/><alias name='ua-root'/></disk>"
	balloon = "<memballoon model='virtio-non-transitional'><stats period='10'/></memballoon>"
	video   = "<video><model type='vga' heads='1' vram='16384'/></video>"
	scsi    = "<controller type='scsi' index='0' model='virtio-non-transitional'/>"
	usb     = "<controller type='usb' index='0' model='qemu-xhci'/>"
	dog     = "<watchdog model='i6300esb' action='reset'><alias name='ua-dog'/></watchdog>"
	agent   = "<channel type='unix'><target name='org.qemu.guest_agent.0' type='virtio'/></channel>"

	chipsetDog = "<watchdog model='itco' action='reset'/>"
)

// TestPutBack: what the record has is put back, and what is new is left to libvirt unless it is in the way.
func TestPutBack(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		xml    []byte
		record *record.Record
		edit   func(*v1.VirtualMachineInstance)
		want   map[string]string
	}{
		{name: "by alias, and by kind without one", xml: domain("q35", usb, scsi, nic, root, video, balloon, "<rng model='virtio'/>", "<tpm model='tpm-crb'/>"),
			record: frozen(6, "interface.default pci 03:00.0", "disk.root pci 01:00.0", "memballoon.balloon pci 05:00.0", "video.video pci 00:01.0",
				"rng.rng pci 04:00.0", "controller.scsi.0 pci 02:00.0", "controller.usb.0 pci 06:00.0"),
			want: map[string]string{"machine": "pc-q35-7.2", "interface ua-default": "03 00 0", "disk ua-root": "01 00 0", "memballoon": "05 00 0", "tpm": "",
				"video": "00 01 0", "rng": "04 00 0", "controller scsi0": "02 00 0", "controller usb0": "06 00 0", "controller pci1": "00 02 0 on",
				"controller pci2": "00 02 1", "controller pci3": "00 02 2", "controller pci4": "00 02 3", "controller pci5": "00 02 4", "controller pci6": "00 02 5"}},
		{name: "a new device keeps no place of the record", xml: domain("pc-q35-9.0", strings.Replace(nic2, "<alias",
			"<address type='pci' domain='0x0000' bus='0x01' slot='0x00' function='0x0'/><alias", 1), nic,
			"<controller type='pci' index='2' model='pcie-root-port'><address type='pci' bus='0x00' slot='0x02' function='0x0'/></controller>"),
			record: frozen(1, "interface.default pci 01:00.0"),
			want: map[string]string{"machine": "pc-q35-9.0", "interface ua-default": "01 00 0", "interface ua-second": "", "controller pci1": "00 02 0",
				"controller pci2": ""}},
		{name: "placeholders", xml: domain("q35", nic,
			"<interface type='ethernet'><model type='virtio'/><target dev='placeholder-0' managed='no'/><alias name='placeholder-0'/></interface>"),
			record: frozen(1, "interface.default pci 01:00.0", "interface.placeholder-0 pci 01:00.0"),
			want:   map[string]string{"machine": "pc-q35-7.2", "interface ua-default": "01 00 0", "interface placeholder-0": "", "controller pci1": "00 02 0"}},
		{name: "pciAddress wins", xml: domain("q35", strings.Replace(nic, "<alias", "<address type='pci' bus='0x02' slot='0x00' function='0x0'/><alias", 1)),
			record: frozen(2, "interface.default pci 01:00.0"),
			edit: func(vmi *v1.VirtualMachineInstance) {
				vmi.Spec.Domain.Devices.Interfaces = []v1.Interface{{Name: "default", PciAddress: "0000:02:00.0"}}
			},
			want: map[string]string{"machine": "pc-q35-7.2", "interface ua-default": "02 00 0", "controller pci1": "00 02 0 on", "controller pci2": "00 02 1"}},
		{name: "host devices by the name in the VMI", xml: domain("q35",
			"<hostdev type='pci' managed='no'><source/><alias name='ua-hostdevice-gpu-a'/></hostdev>",
			"<hostdev type='pci' managed='no'><source/><alias name='ua-gpu-a'/></hostdev>",
			"<hostdev type='pci' managed='no'><source/><alias name='ua-sriov-net'/></hostdev>"),
			record: frozen(3, "hostdev.gpu-a pci 03:00.0", "hostdev.a pci 02:00.0", "hostdev.net pci 01:00.0"),
			want: map[string]string{"machine": "pc-q35-7.2", "hostdev ua-hostdevice-gpu-a": "03 00 0", "hostdev ua-gpu-a": "02 00 0", "hostdev ua-sriov-net": "01 00 0",
				"controller pci1": "00 02 0 on", "controller pci2": "00 02 1", "controller pci3": "00 02 2"}},
		{name: "a channel and its controller, which KubeVirt leaves to libvirt", xml: domain("q35", agent),
			record: frozen(1, "channel.guest-agent serial 0:0:2", "controller.virtio-serial.0 pci 01:00.0"),
			want: map[string]string{"machine": "pc-q35-7.2", "channel org.qemu.guest_agent.0": "0 0 2", "controller virtio-serial0": "01 00 0",
				"controller pci1": "00 02 0"}},
		{name: "USB", xml: domain("q35", usb, "<redirdev bus='usb' type='spicevmc'/>",
			"<redirdev bus='usb' type='spicevmc'><address type='usb' bus='0' port='3'/></redirdev>",
			"<input type='tablet' bus='usb'><alias name='ua-pen'/></input>",
			"<input type='tablet' bus='usb'><address type='usb' bus='0' port='9'/><alias name='ua-late'/></input>"),
			record: frozen(0, "redirdev.usbredir-0 usb 0:2", "redirdev.usbredir-1 usb 0:9", "input.pen usb 0:1"),
			want: map[string]string{"machine": "pc-q35-7.2", "controller usb0": "", "redirdev1": "0 2", "redirdev2": "0 9", "input ua-pen": "0 1",
				"input ua-late": ""}},
		{name: "a watchdog, and the chipset's, which libvirt 11.3 adds", xml: domain("q35", dog, chipsetDog),
			record: frozen(1, "controller.pci.2 pci 01:00.0", "watchdog.dog pci 02:01.0"),
			want: map[string]string{"machine": "pc-q35-7.2", "watchdog ua-dog": "02 01 0", "watchdog": "", "controller pci1": "00 02 0",
				"controller pci2": "01 00 0"}},
		{name: "the chipset's watchdog after the other one was removed", xml: domain("q35", chipsetDog),
			record: frozen(1, "controller.pci.2 pci 01:00.0", "watchdog.dog pci 02:01.0"),
			want:   map[string]string{"machine": "pc-q35-7.2", "watchdog": "", "controller pci1": "00 02 0", "controller pci2": "01 00 0"}},
		{name: "a disk on another bus than it was", xml: domain("q35", "<disk device='disk'><target dev='sda' bus='sata'/><alias name='ua-root'/></disk>"),
			record: frozen(1, "disk.root pci 01:00.0"),
			want:   map[string]string{"machine": "pc-q35-7.2", "disk ua-root": "", "controller pci1": "00 02 0"}},
		{name: "an interface of another model", xml: domain("q35", strings.Replace(nic, "virtio-non-transitional", "e1000", 1)),
			record: frozen(1, "interface.default pci 01:00.0"),
			want:   map[string]string{"machine": "pc-q35-7.2", "interface ua-default": "", "controller pci1": "00 02 0"}},
		{name: "without root ports", xml: domain("q35", strings.Replace(nic2, "<alias", "<address type='pci' bus='0x00' slot='0x02' function='0x0'/><alias", 1),
			strings.Replace(nic, "<alias", "<address type='pci' bus='0x00' slot='0x03' function='0x0'/><alias", 1)),
			record: frozen(0, "interface.default pci 00:02.0"),
			edit: func(vmi *v1.VirtualMachineInstance) {
				vmi.Annotations[v1.PlacePCIDevicesOnRootComplex] = "true"
			},
			want: map[string]string{"machine": "pc-q35-7.2", "interface ua-default": "00 02 0", "interface ua-second": "00 03 0"}},
		{name: "s390x", xml: domain("s390-ccw-virtio", strings.Replace(nic2, "<alias", "<address type='ccw' cssid='0xfe' ssid='0' devno='0x0001'/><alias", 1), nic),
			record: func() *record.Record {
				r := frozen(0, "interface.default ccw fe.0.0001")
				r.Machine = "s390-ccw-virtio-7.2"
				return r
			}(),
			want: map[string]string{"machine": "s390-ccw-virtio-7.2", "interface ua-default": "fe 0 0001", "interface ua-second": ""}},
		{name: "a bridge and an expander bus", xml: domain("q35", nic, nic2),
			record: frozen(1, "controller.pci.2 pci 01:00.0", "interface.default pci 02:03.0", "controller.pci.3 expander 240:1", "controller.pci.4 pci 03:00.0",
				"interface.second pci 04:00.0"),
			want: map[string]string{"machine": "pc-q35-7.2", "interface ua-default": "02 03 0", "interface ua-second": "04 00 0", "controller pci1": "00 02 0",
				"controller pci2": "01 00 0", "controller pci3": "00 1e 0", "controller pci4": "03 00 0"}},
	} {
		of := vmi()
		if c.edit != nil {
			c.edit(of)
		}
		out, err := PutBack(c.xml, of, c.record)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if diff := cmp.Diff(c.want, places(t, out)); diff != "" {
			t.Errorf("%s (-want +got):\n%s\n%s", c.name, diff, out)
		}
		again, err := PutBack(out, of, c.record)
		if err != nil || string(again) != string(out) {
			t.Errorf("%s: a second time it is\n%s\nnot\n%s\n%v", c.name, again, out, err)
		}
	}
}

// TestDrives: SATA and SCSI disks keep their units. SCSI disks are named after their units, so that KubeVirt plugs new ones in elsewhere.
func TestDrives(t *testing.T) {
	t.Parallel()
	disk := func(name, bus, dev, address string) string {
		return "<disk device='disk'><target dev='" + dev + "' bus='" + bus + "'/><alias name='ua-" + name + "'/>" + address + "</disk>"
	}
	unit := func(n int) string {
		return fmt.Sprintf("<address type='drive' controller='0' bus='0' unit='%d'/>", n)
	}
	xml := domain("q35", scsi, disk("new", "scsi", "sda", unit(0)), disk("cd", "sata", "sdb", ""), disk("a", "scsi", "sdc", unit(2)), disk("b", "scsi", "sdd",
		unit(3)),
		disk("far", "scsi", "sde", unit(4)), disk("cd2", "sata", "sdf", ""))
	out, err := PutBack(xml, vmi(), frozen(0, "disk.a drive 0:0:0:0", "disk.b drive 0:0:0:5", "disk.cd drive 0:0:0:1", "disk.far drive 1:0:0:7"))
	if err != nil {
		t.Fatal(err)
	}
	got := places(t, out)
	want := map[string]string{"machine": "pc-q35-7.2", "controller scsi0": "", "controller scsi1": "", "disk ua-a": "0 0 0 0", "disk ua-b": "0 0 0 5",
		"disk ua-new": "0 0 0 1", "disk ua-cd": "0 0 0 1", "disk ua-cd2": "0 0 0 5", "disk ua-far": "1 0 0 7"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	doc := etree.NewDocument()
	if err := doc.ReadFromBytes(out); err != nil {
		t.Fatal(err)
	}
	names := map[string]string{}
	for _, d := range doc.FindElements("domain/devices/disk") {
		names[d.SelectElement("alias").SelectAttrValue("name", "")] = d.SelectElement("target").SelectAttrValue("dev", "")
	}
	if diff := cmp.Diff(map[string]string{"ua-a": "sda", "ua-b": "sdf", "ua-new": "sdb", "ua-far": "sde", "ua-cd": "sdc", "ua-cd2": "sdd"}, names); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
}
