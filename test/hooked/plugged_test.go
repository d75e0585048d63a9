package hooked

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/beevik/etree"
	"github.com/kilnvm/kiln/pkg/record"
	"github.com/kilnvm/kiln/pkg/render"
	"github.com/kilnvm/kiln/test/nightly"
	v1 "kubevirt.io/api/core/v1"
)

// TestPlugged: what is plugged into a running guest is recorded where libvirt has put it, and the next boot has it there.
func TestPlugged(t *testing.T) { plugged(t, few) }

// TestPluggedInto200 is TestPlugged with more guests.
func TestPluggedInto200(t *testing.T) {
	nightly.Only(t)
	plugged(t, 200)
}

func plugged(t *testing.T, guests int) {
	l := start(t)
	disks := t.TempDir()
	devices := 0
	for seed := range uint64(guests) {
		random := rand.New(rand.NewPCG(seed, 9)) //nolint:gosec // to be repeated
		vmi := explicit(t, guest(random))
		var frozen *record.Record
		if seed%2 == 1 { // captured of a boot without the hook
			frozen = captured(t, l.defined(t, vmi, hooks{}), nil)
		}
		frozen = rendered(t, vmi, frozen)
		remember(t, vmi, frozen)
		l.run(t, startable(t, l.defined(t, vmi, l.sidecar()), disks))
		for n := range 1 + random.IntN(5) {
			vmi = explicit(t, withDevice(vmi, random, fmt.Sprintf("plugged%d", n)))
			xml, fits := l.plug(t, vmi, disks)
			now := captured(t, xml, nil)
			report(t, vmi, xml)
			made, certain, errs := render.KubeVirtPlugged(vmi, frozen)
			if len(errs) > 0 || !certain {
				t.Fatalf("guest %d: %v, certain: %t", seed, errs, certain)
			}
			frozen = made
			_, recorded := frozen.Devices[lastOf(vmi)]
			if c := same(frozen, now); len(c.moved) > 0 || recorded != fits {
				t.Errorf("guest %d, device %d, in the domain: %t, in the record: %t: %s", seed, n, fits, recorded, strings.Join(c.moved, ", "))
			}
			if !fits {
				break
			}
			devices++
		}
		running := captured(t, l.active(t), nil)
		if err := l.libvirt.Destroy(name); err != nil {
			t.Fatal(err)
		}
		remember(t, vmi, frozen)
		vmi.Status = v1.VirtualMachineInstanceStatus{}
		if moved := same(running, captured(t, l.defined(t, vmi, l.sidecar()), nil)).moved; len(moved) > 0 {
			t.Errorf("guest %d: at the next boot %s moved", seed, strings.Join(moved, ", "))
		}
	}
	t.Logf("%d devices were plugged into %d guests, and found again", devices, guests)
}

// name is the name of each guest's domain.
const name = "default_guest"

// withDevice is a VMI to which a disk or an interface is added that KubeVirt can plug in.
func withDevice(vmi *v1.VirtualMachineInstance, random *rand.Rand, device string) *v1.VirtualMachineInstance {
	vmi = vmi.DeepCopy()
	devices := &vmi.Spec.Domain.Devices
	if random.IntN(2) == 0 {
		addInterface(vmi, device, len(devices.Interfaces))
		return vmi
	}
	addDisk(vmi, random, device, len(devices.Disks))
	if of := devices.Disks[len(devices.Disks)-1].Disk; of.Bus == v1.DiskBusSATA {
		of.Bus = v1.DiskBusSCSI
	}
	return vmi
}

// lastOf is the key of the device that withDevice has added: the one that no status has.
func lastOf(vmi *v1.VirtualMachineInstance) string {
	disks, interfaces := vmi.Spec.Domain.Devices.Disks, vmi.Spec.Domain.Devices.Interfaces
	last := disks[len(disks)-1].Name
	if n := len(interfaces); n > 0 && strings.HasPrefix(interfaces[n-1].Name, "plugged") && (!strings.HasPrefix(last, "plugged") || interfaces[n-1].Name > last) {
		return record.Key("interface", interfaces[n-1].Name)
	}
	return record.Key("disk", last)
}

// run starts a domain, and stops its CPUs: nothing is to boot.
func (l *launcher) run(t *testing.T, xml string) {
	t.Helper()
	if _, err := l.libvirt.Define(xml); err != nil {
		t.Fatalf("%v\n%s", err, xml)
	}
	if err := l.libvirt.Create(name); err != nil {
		t.Fatalf("%v\n%s", err, xml)
	}
	if err := l.libvirt.Suspend(name); err != nil {
		t.Fatal(err)
	}
}

func (l *launcher) active(t *testing.T) string {
	t.Helper()
	xml, err := l.libvirt.ActiveXML(name)
	if err != nil {
		t.Fatal(err)
	}
	return xml
}

// plug attaches the device that withDevice has added, as KubeVirt's converter writes it, and returns the domain, and whether it had a port for the device.
func (l *launcher) plug(t *testing.T, vmi *v1.VirtualMachineInstance, disks string) (xml string, fits bool) {
	t.Helper()
	doc := parsed(t, startable(t, emulated(t, l.converted(t, vmi)), disks))
	_, device := record.SplitKey(lastOf(vmi))
	alias := doc.FindElement("domain/devices/*/alias[@name='ua-" + device + "']")
	if alias == nil {
		t.Fatalf("KubeVirt's domain has no device '%s'", device)
	}
	out := etree.NewDocument()
	out.SetRoot(alias.Parent().Copy())
	text, err := out.WriteToString()
	if err != nil {
		t.Fatal(err)
	}
	err = l.libvirt.Attach(name, text)
	if err != nil && !strings.Contains(err.Error(), "No more available PCI slots") {
		t.Fatalf("%v\n%s", err, text)
	}
	return l.active(t), err == nil
}

// converted is the domain that KubeVirt's converter makes, before libvirt has placed anything.
func (l *launcher) converted(t *testing.T, vmi *v1.VirtualMachineInstance) (xml string) {
	t.Helper()
	if err := l.requests.Encode(request{VMI: vmi}); err != nil {
		t.Fatal(err)
	}
	for {
		var s step
		if err := l.steps.Decode(&s); err != nil {
			t.Fatal(err)
		}
		if s.Done || s.Error != "" {
			return xml
		}
		xml = s.Define
		if err := l.requests.Encode(map[string]string{"error": "this is enough"}); err != nil {
			t.Fatal(err)
		}
	}
}

// report writes the status that virt-handler makes of a domain: the targets of disks, and who knows of interfaces.
func report(t *testing.T, vmi *v1.VirtualMachineInstance, xml string) {
	t.Helper()
	vmi.Status = v1.VirtualMachineInstanceStatus{Phase: v1.Running}
	devices := parsed(t, xml).FindElement("domain/devices")
	of := func(e *etree.Element) string {
		return strings.TrimPrefix(e.SelectElement("alias").SelectAttrValue("name", ""), "ua-")
	}
	for _, e := range devices.SelectElements("disk") {
		vmi.Status.VolumeStatus = append(vmi.Status.VolumeStatus, v1.VolumeStatus{Name: of(e), Target: e.SelectElement("target").SelectAttrValue("dev", "")})
	}
	for _, e := range devices.SelectElements("interface") {
		vmi.Status.Interfaces = append(vmi.Status.Interfaces, v1.VirtualMachineInstanceNetworkInterface{Name: of(e), InfoSource: "domain, guest-agent"})
	}
}

// startable is a domain that starts here: with files as disks and QEMU's own network, and without what needs sockets of virt-launcher. None of what is left
// out has a PCI address of its own.
func startable(t *testing.T, xml, disks string) string {
	t.Helper()
	doc := parsed(t, xml)
	devices := doc.FindElement("domain/devices")
	remove := func(from *etree.Element, tags ...string) {
		for _, tag := range tags {
			for _, e := range from.SelectElements(tag) {
				from.RemoveChild(e)
			}
		}
	}
	remove(devices, "serial", "console", "channel", "graphics", "redirdev")
	for _, e := range devices.SelectElements("disk") {
		file := filepath.Join(disks, e.SelectElement("alias").SelectAttrValue("name", ""))
		if err := os.WriteFile(file, make([]byte, 1<<20), 0o600); err != nil {
			t.Fatal(err)
		}
		e.CreateAttr("type", "file")
		remove(e, "source", "driver")
		e.CreateElement("source").CreateAttr("file", file)
	}
	for _, e := range devices.SelectElements("interface") {
		e.CreateAttr("type", "user")
		remove(e, "target", "driver", "mtu")
	}
	text, err := doc.WriteToString()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func parsed(t *testing.T, xml string) *etree.Document {
	t.Helper()
	doc := etree.NewDocument()
	if err := doc.ReadFromString(xml); err != nil {
		t.Fatal(err)
	}
	return doc
}
