package kubevirt

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/beevik/etree"
	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/pkg/address"
	"github.com/kilnvm/kiln/pkg/hardware"
	"github.com/kilnvm/kiln/pkg/record"
	"libvirt.org/go/libvirtxml"
)

// some is a device of random domains, by its name.
func some(name string, kind int) string {
	alias := "<alias name='ua-" + name + "'/>"
	switch kind {
	case 0:
		return "<interface type='ethernet'><mac address='02:00:00:00:00:01'/><model type='virtio-non-transitional'/>" + alias + "</interface>"
	case 1:
		return "<disk type='file' device='disk'><driver name='qemu' type='raw' cache='none'/><source file='/x'/><target dev='vd" + name + "' bus='virtio'/>" +
			alias + "</disk>"
	case 2:
		return "<disk type='file' device='cdrom'><source file='/x'/><target dev='sd" + name + "' bus='sata'/>" + alias + "</disk>"
	case 3:
		return "<disk type='file' device='disk'><source file='/x'/><target dev='sd" + name + "' bus='scsi'/>" + alias + "</disk>"
	case 4:
		return "<input type='tablet' bus='usb'>" + alias + "</input>"
	case 5:
		return "<hostdev mode='subsystem' type='pci' managed='no'><source><address domain='0x0000' bus='0x3f' slot='0x02' function='0x1'/></source>" + alias +
			"</hostdev>"
	}
	return "<filesystem type='mount' accessmode='passthrough'><driver type='virtiofs' queue='1024'/><source socket='/s'/><target dir='" + name + "'/></filesystem>"
}

// kinds is the number of kinds that some knows.
const kinds = 7

// around is what a domain has besides: what the function must leave alone.
const around = `<!-- of KubeVirt --><domain type="kvm" xmlns:qemu="http://libvirt.org/schemas/domain/qemu/1.0"><name>ns_vm</name><memory unit="b">1</memory>` +
	`<os><type arch="x86_64" machine="q35">hvm</type><smbios mode="sysinfo"/></os>` +
	`<sysinfo type="smbios"><system><entry name="uuid">a &lt; b</entry></system></sysinfo>` +
	`<metadata><kubevirt xmlns="http://kubevirt.io"><uid>1</uid></kubevirt></metadata><devices>` +
	`<serial type="unix"><source mode="bind" path="/p"/><target port="0"/></serial><console type="pty"/><graphics type="vnc"/>%s</devices>` +
	`<qemu:commandline><qemu:arg value="name=opt/x,string=a&#10;b 'c' &quot;d&quot;"/></qemu:commandline></domain>`

// place gives each device of a domain a place of its own, in random order, as a record.
func place(random *rand.Rand, names []string, of map[string]int) *record.Record {
	out := frozen(uint(len(names) + random.IntN(5)))
	var ports, units, usb uint
	order := random.Perm(len(names))
	for _, i := range order {
		name := names[i]
		switch of[name] {
		case 0, 1, 5, 6:
			ports++
			kind := map[int]string{0: "interface", 1: "disk", 5: "hostdev", 6: "filesystem"}[of[name]]
			out.Devices[record.Key(kind, name)] = record.Address{PCI: address.PCI{Bus: ports}.String()}
		case 2, 3:
			size := map[int]uint{2: hardware.Bus("sata").Controller.Units, 3: hardware.Bus("scsi").Controller.Units}[of[name]]
			out.Devices[record.Key("disk", name)] = record.Address{Drive: address.DriveAt(units, size).String()}
			units++
		case 4:
			at := address.USBAt(usb)
			out.Devices[record.Key("input", name)] = record.Address{USB: address.FormatUSB(at.Bus, fmt.Sprint(at.Port))}
			usb++
		}
	}
	return out
}

// TestNothingElse: of 500 random domains and records of a part of their devices, the function changes places alone, says the same when it is asked again,
// puts each recorded device where the record says, and no two devices at one place.
func TestNothingElse(t *testing.T) {
	t.Parallel()
	for seed := range uint64(500) {
		random := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // to be repeated
		of, names, devices := map[string]int{}, []string{}, []string{usb, scsi, balloon, video}
		for i := range random.IntN(14) {
			name := string(rune('a'+i)) + string(rune('a'+random.IntN(26)))
			of[name] = random.IntN(kinds)
			names = append(names, name)
			devices = append(devices, some(name, of[name]))
		}
		random.Shuffle(len(devices), func(i, j int) { devices[i], devices[j] = devices[j], devices[i] })
		recorded := names[:random.IntN(len(names)+1)]
		want := place(random, recorded, of)
		xml := fmt.Sprintf(around, strings.Join(devices, ""))
		out, err := PutBack([]byte(xml), vmi(), want)
		if err != nil {
			t.Fatalf("%d: %v\n%s", seed, err, xml)
		}
		if again, err := PutBack(out, vmi(), want); err != nil || string(again) != string(out) {
			t.Fatalf("%d: a second time: %v\n%s", seed, err, cmp.Diff(string(out), string(again)))
		}
		if diff := cmp.Diff(bare(t, []byte(xml)), bare(t, out)); diff != "" {
			t.Fatalf("%d: besides places (-before +after):\n%s", seed, diff)
		}
		checkPlaces(t, seed, out, want)
	}
}

// bare is a domain without what the function may change: as text, and as libvirtxml reads it.
func bare(t *testing.T, xml []byte) (out [2]any) {
	t.Helper()
	doc := etree.NewDocument()
	if err := doc.ReadFromBytes(xml); err != nil {
		t.Fatal(err)
	}
	doc.FindElement("domain/os/type").RemoveAttr("machine")
	list := doc.FindElement("domain/devices")
	for _, e := range list.ChildElements() {
		dropAddress(e)
		if isPort(e) {
			list.RemoveChild(e)
		}
		if target := e.SelectElement("target"); e.Tag == "disk" && target.SelectAttrValue("bus", "") != "virtio" {
			target.RemoveAttr("dev")
		}
		if e.Tag == "controller" {
			e.RemoveAttr("ports")
		}
	}
	text, err := doc.WriteToString()
	if err != nil {
		t.Fatal(err)
	}
	parsed := libvirtxml.Domain{}
	if err := parsed.Unmarshal(text); err != nil {
		t.Fatal(err)
	}
	return [2]any{text, parsed}
}

// checkPlaces compares the addresses of a domain with the record, by the reader of records.
func checkPlaces(t *testing.T, seed uint64, xml []byte, want *record.Record) {
	t.Helper()
	doc := etree.NewDocument()
	if err := doc.ReadFromBytes(xml); err != nil {
		t.Fatal(err)
	}
	taken := map[string]string{}
	g := &guest{list: doc.FindElement("domain/devices"), frozen: want}
	g.findDevices()
	for _, d := range g.devices {
		at := d.SelectElement("address")
		if at == nil {
			if !d.new {
				t.Errorf("%d: %s has no place", seed, d)
			}
			continue
		}
		text := d.busName() // SATA and SCSI have the same numbers
		for _, a := range at.Attr {
			text += " " + a.Value
		}
		if other := taken[text]; other != "" {
			t.Errorf("%d: %s and %s are both at %s", seed, other, d, text)
		}
		taken[text] = d.String()
		got := record.Address{}
		part := func(name string) uint { n, _ := parseNumber(at, name); return n }
		switch at.SelectAttrValue("type", "") {
		case "pci":
			got.PCI = address.PCI{Bus: part("bus"), Slot: part("slot"), Function: part("function")}.String()
		case "drive":
			got.Drive = address.Drive{Controller: part("controller"), Unit: part("unit")}.String()
		case "usb":
			got.USB = address.FormatUSB(part("bus"), at.SelectAttrValue("port", ""))
		}
		if !d.new && got != d.recorded {
			t.Errorf("%d: %s is at %v, and the record has %v", seed, d, got, d.recorded)
		}
	}
}

// TestHostDeviceOfKubeVirt: elements that libvirtxml refuses or loses stay.
func TestHostDeviceOfKubeVirt(t *testing.T) {
	t.Parallel()
	const host = `<hostdev type="pci" managed="no"><source><address type="pci" domain="0x0000"/></source><alias name="ua-gpu-a"/></hostdev>`
	const block = `<disk device="disk"><source dev="/dev/a" name="a"/><target dev="vda" bus="virtio"/>` +
		`<filesystemOverhead>0.05</filesystemOverhead><capacity>1</capacity></disk>`
	out, err := PutBack(domain("q35", host, block), vmi(), frozen(1, "hostdev.a pci 01:00.0"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{block, `<source><address type="pci" domain="0x0000"/></source>`, `bus="0x01"`} {
		if !strings.Contains(string(out), want) {
			t.Errorf("%s is missing in\n%s", want, out)
		}
	}
	if err := new(libvirtxml.Domain).Unmarshal(string(out)); err == nil {
		t.Error("libvirtxml reads it: the comment of the package is wrong")
	}
}

// FuzzPutBack: neither a domain nor a record ends the process, and what comes out is XML that gives the same again.
func FuzzPutBack(f *testing.F) {
	f.Add(string(domain("q35", usb, scsi, nic, root, video, balloon, agent)), "interface.default pci 01:00.0", uint(3))
	f.Add(string(domain("virt", agent)), "channel.guest-agent serial 0:0:1", uint(0))
	f.Fuzz(func(t *testing.T, xml, device string, ports uint) {
		r := frozen(ports%32, device)
		if record.Check(r) != nil {
			t.Skip("no boot can have written the record")
		}
		out, err := PutBack([]byte(xml), vmi(), r)
		if err != nil {
			return
		}
		if again, err := PutBack(out, vmi(), r); err != nil || string(again) != string(out) {
			t.Errorf("%v\n%s\n%s", err, out, again)
		}
	})
}
