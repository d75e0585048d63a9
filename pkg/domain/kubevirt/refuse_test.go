package kubevirt

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/record"
)

// TestRefused: what cannot be put back is an error that names the device.
func TestRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		why, want string
		xml       []byte
		record    *record.Record
	}{
		{"no XML", "not XML", []byte("<domain"), frozen(0)},
		{"no domain", "no element 'domain'", []byte("<x/>"), frozen(0)},
		{"no devices", "no element 'domain'", []byte("<domain/>"), frozen(0)},
		{"another machine", "machine: the record has 'pc-q35-7.2', which is no version of 'virt'", domain("virt"), frozen(0)},
		{"no such bus", "interface 'default': recorded at 0000:07:00.0, and the record has no root port 7", domain("q35", nic), frozen(1,
			"interface.default pci 07:00.0")},
		{"a slot that no root port has", "interface 'default': recorded at 0000:01:01.0", domain("q35", nic), frozen(1, "interface.default pci 01:01.0")},
		{"a function that no root port has", "interface 'default': recorded at 0000:01:00.1", domain("q35", nic), frozen(1, "interface.default pci 01:00.1")},
		{"slot 0 of a bridge", "a bridge has no slot 0", domain("q35", nic), frozen(1, "controller.pci.2 pci 01:00.0", "interface.default pci 02:00.0")},
		{"an expander bus", "is an expander bus", domain("q35", nic), frozen(0, "controller.pci.3 expander 240:", "interface.default pci 03:00.0")},
		{"two devices at one place", "interface 'second': its place 0000:01:00.0 is taken by interface 'default'", domain("q35", nic, nic2),
			frozen(1, "interface.default pci 01:00.0", "interface.second pci 01:00.0")},
		{"two root ports at one place", "root port 2: its place 0000:00:02.0 is taken by root port 1", domain("q35"), frozen(1, "controller.pci.2 pci 00:02.0")},
		{"a root port nowhere", "root port 2: the record has it on bus 9", domain("q35"), frozen(1, "controller.pci.2 pci 09:00.0")},
		{"the machine's own place", "video 'video': its place 0000:00:1f.0 is taken by the machine", domain("q35", video), frozen(0, "video.video pci 00:1f.0")},
		{"one device twice", "interface 'default': is in the domain twice", domain("q35", nic, nic), frozen(1, "interface.default pci 01:00.0")},
		{"two disks at one place", "disk 'b': its recorded place 0:0:0:0 is taken by another disk", domain("q35",
			"<disk><target dev='sda' bus='sata'/><alias name='ua-a'/></disk>", "<disk><target dev='sdb' bus='sata'/><alias name='ua-b'/></disk>"),
			frozen(0, "disk.a drive 0:0:0:0", "disk.b drive 0:0:0:0")},
		{"two USB devices at one place", "input 'b': its recorded place usb :0:1 is taken by input 'a'", domain("q35",
			"<input bus='usb'><alias name='ua-a'/></input>", "<input bus='usb'><alias name='ua-b'/></input>"), frozen(0, "input.a usb 0:1", "input.b usb 0:1")},
		{"another controller with its index", "PCI controller 1: the record has a pcie-root-port, and KubeVirt's domain a pcie-expander-bus",
			domain("q35", "<controller type='pci' index='1' model='pcie-expander-bus'/>"), frozen(1)},
	} {
		out, err := PutBack(c.xml, vmi(), c.record)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: '%v', want '%s'\n%s", c.why, err, c.want, out)
		}
	}
}

// TestManyMistakes: the text of an error is bounded.
func TestManyMistakes(t *testing.T) {
	t.Parallel()
	var devices, entries []string
	for i := range 20 {
		devices = append(devices, some(string(rune('a'+i)), 0))
		entries = append(entries, "interface."+string(rune('a'+i))+" pci 09:00.0")
	}
	_, err := PutBack(domain("q35", devices...), vmi(), frozen(0, entries...))
	if err == nil || strings.Count(err.Error(), "\n") != mostErrors || !strings.HasSuffix(err.Error(), "\nand 12 more") {
		t.Error(err)
	}
}

// TestUnchanged: without a record nothing is read or written.
func TestUnchanged(t *testing.T) {
	t.Parallel()
	if out, err := PutBack([]byte("<domain"), vmi(), nil); err != nil || string(out) != "<domain" {
		t.Errorf("%s, %v", out, err)
	}
}

// TestRecorded: the annotation is hostile input.
func TestRecorded(t *testing.T) {
	t.Parallel()
	legal, err := json.Marshal(frozen(2))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		why, text, want string
		recorded        bool
	}{
		{"a record that is to be made", "{}", "", false},
		{"a record", string(legal), "", true},
		{"nothing", "", "metadata.annotations[kilnvm.io/frontend]: not a record of hardware", false},
		{"no JSON", "{", "metadata.annotations[kilnvm.io/frontend]: not a record of hardware", false},
		{"an entry that no boot has written", `{"machine": "x y"}`, "metadata.annotations[kilnvm.io/frontend]: not a record of hardware: machine 'x y'", false},
		{"too long", strings.Repeat("[", 256<<10+1), "metadata.annotations[kilnvm.io/frontend]: Too long: may not be more than 262144 bytes", false},
	} {
		of := vmi()
		of.Annotations[v1alpha1.AnnotationFrontend] = c.text
		got, asked, err := Recorded(of)
		switch {
		case !asked:
			t.Errorf("%s: is not asked for", c.why)
		case c.want == "" && (err != nil || (got != nil) != c.recorded):
			t.Errorf("%s: %v, %v", c.why, got, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: '%v', want '%s'", c.why, err, c.want)
		}
	}
	if got, asked, err := Recorded(vmi()); got != nil || asked || err != nil {
		t.Errorf("%v, %t, %v", got, asked, err)
	}
}
