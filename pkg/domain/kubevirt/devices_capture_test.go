package kubevirt

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/pkg/record"
)

// TestCapture: the places of a domain as libvirt has them. What was recorded under another name keeps it, and what is gone leaves.
func TestCapture(t *testing.T) {
	t.Parallel()
	at := func(element, address string) string {
		return strings.Replace(element, "</", "<address "+address+"/></", 1)
	}
	pci := func(bus string) string {
		return "type='pci' domain='0x0000' bus='" + bus + "' slot='0x00' function='0x0'"
	}
	xml := domain("pc-q35-7.2",
		"<controller type='pci' index='0' model='pcie-root'/>",
		"<controller type='pci' index='1' model='pcie-root-port'><address type='pci' bus='0x00' slot='0x02' function='0x0' multifunction='on'/></controller>",
		"<controller type='pci' index='2' model='pcie-root-port'><address type='pci' bus='0x00' slot='0x02' function='0x1'/></controller>",
		"<controller type='pci' index='3' model='pcie-expander-bus'><target busNr='240'><node>1</node></target>"+
			"<address type='pci' bus='0' slot='0x03' function='0'/></controller>",
		"<controller type='usb' index='0' model='qemu-xhci'/>",
		at("<interface type='ethernet'><target dev='tap0'/><alias name='ua-default'/></interface>", ""),
		strings.Replace(root, "</disk>", "<address "+pci("0x01")+"/></disk>", 1),
		strings.Replace(balloon, "</memballoon>", "<address "+pci("0x02")+"/></memballoon>", 1),
		"<channel type='unix'><target type='virtio' name='org.qemu.guest_agent.0'/><address type='virtio-serial' controller='0' bus='0' port='1'/></channel>",
		"<channel type='unix'><target type='virtio' name='com.example.a'/><address type='virtio-serial' controller='0' bus='0' port='2'/></channel>",
		"<disk><target dev='sdc' bus='scsi'/><alias name='ua-b'/><address type='drive' controller='0' bus='0' target='0' unit='2'/></disk>",
		"<redirdev bus='usb' type='unix'><address type='usb' bus='0' port='3'/></redirdev>",
		"<redirdev bus='usb' type='unix'><address type='usb' bus='0' port='1.1'/></redirdev>",
		"<redirdev bus='usb' type='unix'><address type='usb' bus='0' port='4'/></redirdev>",
		strings.Replace(dog, "</watchdog>", "<address type='pci' domain='0x0000' bus='0x07' slot='0x01' function='0x0'/></watchdog>", 1), chipsetDog,
		"<rng model='virtio'><address type='ccw' cssid='0xfe' ssid='0x0' devno='0x0003'/></rng>", "<panic model='isa'/>",
		"<panic model='pvpanic'><address "+pci("0x05")+"/></panic>",
		"<interface><target dev='placeholder-0'/><address "+pci("0x06")+"/></interface>")
	n := func(i uint) *uint { return &i }
	want := map[string]record.Address{
		"controller.pci.1": {PCI: "0000:00:02.0", Index: n(1)}, "controller.pci.2": {PCI: "0000:00:02.1", Index: n(2)},
		"controller.pci.3": {PCI: "0000:00:03.0", Index: n(3), Expander: "240:1"}, "controller.usb.0": {Index: n(0)},
		"disk.root": {PCI: "0000:01:00.0", Target: "vda"}, "memballoon.balloon": {PCI: "0000:02:00.0"}, "channel.guest-agent": {Serial: "0:0:1"},
		"channel.com.example.a": {Serial: "0:0:2"}, "disk.b": {Drive: "0:0:0:2", Target: "sdc"}, "redirdev.usbredir-0": {USB: "0:3"},
		"redirdev.usbredir-1": {USB: "0:4"}, "rng.rng": {CCW: "fe.0.0003"}, "panic.panic-pvpanic": {PCI: "0000:05:00.0"},
		"watchdog.dog": {PCI: "0000:07:01.0"},
	}
	got, err := Capture(xml, nil)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got.Devices); diff != "" || got.Machine != "pc-q35-7.2" || got.FreePorts != 0 {
		t.Errorf("machine %s, %d free ports, devices (-want +got):\n%s", got.Machine, got.FreePorts, diff)
	}
	earlier := &record.Record{Machine: "pc-q35-6.0", Serial: "S", Devices: map[string]record.Address{"memballoon.old": {PCI: "0000:09:00.0"},
		"disk.gone": {PCI: "0000:08:00.0"}}}
	got, err = Capture(domain("q35", strings.Replace(balloon, "</memballoon>", "<address "+pci("0x02")+"/></memballoon>", 1),
		"<controller type='pci' index='2' model='pcie-root-port'/>", "<controller type='pci' index='3' model='pcie-root-port'/>"), earlier)
	if err != nil {
		t.Fatal(err)
	}
	want = map[string]record.Address{"memballoon.old": {PCI: "0000:02:00.0"}, "controller.pci.2": {Index: n(2)}, "controller.pci.3": {Index: n(3)}}
	if diff := cmp.Diff(want, got.Devices); diff != "" || got.Machine != "pc-q35-6.0" || got.Serial != "S" || got.FreePorts != 1 {
		t.Errorf("%+v\n%s", got, diff)
	}
	if len(earlier.Devices) != 2 {
		t.Error("the earlier record is changed")
	}
}

// TestCaptureRefuses: no record of what none can hold.
func TestCaptureRefuses(t *testing.T) {
	t.Parallel()
	for xml, want := range map[string]string{
		"<domain":   "not XML",
		"<domain/>": "no element 'domain' with 'devices'",
		"<x/>":      "no element 'domain' with 'devices'",
		string(domain("pc-q35-7.2", "<rng><address type='pci' bus='0xff' slot='0' function='0'/></rng>")): "the bus must be from '00' to 'fe'",
	} {
		if got, err := Capture([]byte(xml), nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, %v", xml, got, err)
		}
	}
}
