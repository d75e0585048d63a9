package abi_test

import (
	"strings"
	"testing"

	"github.com/kilnvm/kiln/pkg/domain/abi"
	"github.com/kilnvm/kiln/pkg/record"
	"libvirt.org/go/libvirtxml"
)

func TestVerdict(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		why      string
		old, new string
		want     record.Verdict
		device   string
	}{
		{"the guest does not see where its disk lies", `<target dev="vda"`, `<source file="/x"/><target dev="vda"`, record.Compatible, ""},
		{"more memory is found at the next boot", ">1024<", ">2048<", record.NeedsRestart, ""},
		{"a new device takes no other's place", "<rng", `<watchdog model="i6300esb"><alias name="ua-dog"/></watchdog><rng`, record.NeedsRestart, "watchdog.dog"},
		{"a removed one was its owner's wish", `<input type="tablet" bus="usb"><alias name="ua-pen"/><address type="usb" bus="0" port="2"/></input>`, "",
			record.NeedsRestart, "input.pen"},
		{"queues are the driver's to find out", `<target dev="vda"`, `<driver queues="4"/><target dev="vda"`, record.NeedsRestart, "disk.root"},
		{"a boot order is no identity", `<target dev="vda" bus="virtio"/>`, `<target dev="vda" bus="virtio"/><boot order="1"/>`, record.NeedsRestart, ""},
		{"a file system of 512 bytes is not found on 4096", `<target dev="vda"`, `<blockio logical_block_size="4096" physical_block_size="4096"/><target dev="vda"`,
			record.Breaks, "disk.root"},
		{"a larger physical block is a hint", `<target dev="vda"`, `<blockio logical_block_size="512" physical_block_size="4096"/><target dev="vda"`,
			record.NeedsRestart, "disk.root"},
		{"guests name interfaces and disks by address", `bus="1" slot="0"`, `bus="2" slot="0"`, record.Breaks, "disk.root"},
		{"and configure them by MAC", "11:22:33", "11:22:34", record.Breaks, "interface.root"},
		{"another model needs another driver", `model type="e1000"`, `model type="virtio"`, record.Breaks, "interface.root"},
		{"licences go by the UUID", "8861-06e72d69f223", "8861-06e72d69f224", record.Breaks, ""},
		{"a machine version moves what QEMU places itself", "pc-q35-7.2", "pc-q35-8.0", record.Breaks, ""},
	} {
		before, after := parse(t, document), parse(t, strings.ReplaceAll(document, c.old, c.new))
		changes := abi.Compare(before, after)
		if got := record.Judge(changes); got != c.want {
			t.Errorf("%s: '%s', want '%s': %+v", c.why, got, c.want, changes)
		}
		if len(changes) > 0 && changes[0].Device != c.device {
			t.Errorf("%s: names device '%s', want '%s'", c.why, changes[0].Device, c.device)
		}
	}
}

// TestModelNone: a device of model 'none' is one that the guest does not have.
func TestModelNone(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, none, device string }{
		{"controller 'usb.0'", `<controller type="usb" index="0" model="none"/>`,
			`<controller type="usb" index="0" model="qemu-xhci"><address type="pci" domain="0" bus="6" slot="0" function="0"/></controller>`},
		{"memballoon 'balloon'", `<memballoon model="none"/>`,
			`<memballoon model="virtio"><alias name="ua-balloon"/><address type="pci" domain="0" bus="6" slot="0" function="0"/></memballoon>`},
	} {
		with := func(element string) *libvirtxml.Domain {
			return parse(t, strings.Replace(document, "<rng", element+"<rng", 1))
		}
		without, has := with(c.none), with(c.device)
		for text, changes := range map[string][]record.Change{c.name + " is added": abi.Compare(without, has), c.name + " is removed": abi.Compare(has, without)} {
			if len(changes) != 1 || changes[0].Text != text || changes[0].Verdict != record.NeedsRestart {
				t.Errorf("%+v, want '%s'", changes, text)
			}
		}
		if changes := record.Compare(abi.Freeze(without, "v1"), abi.Freeze(has, "v1")); len(changes) != 1 || changes[0].Text != c.name+" is added" {
			t.Errorf("records: %+v", changes)
		}
	}
}

// TestRecordsTell: what two boots of a guest had in common is compared without their domains.
func TestRecordsTell(t *testing.T) {
	t.Parallel()
	before := abi.Freeze(parse(t, document), "v1")
	for _, c := range []struct{ why, old, new, want string }{
		{"the same", "<domain>", "<domain>", ""},
		{"a move", `bus="1" slot="0"`, `bus="2" slot="0"`, "disk 'root' moves from vda at 0000:01:00.0 to vda at 0000:02:00.0"},
		{"a MAC", "11:22:33", "11:22:34", "interface 'root' changes its MAC from '52:54:00:11:22:33' to '52:54:00:11:22:34'"},
		{"a machine", "pc-q35-7.2", "pc-q35-8.0", "the machine changes from 'pc-q35-7.2' to 'pc-q35-8.0'"},
		{"a device goes", `<input type="tablet" bus="usb"><alias name="ua-pen"/><address type="usb" bus="0" port="2"/></input>`, "", "input 'pen' is removed"},
	} {
		var got []string
		for _, change := range record.Compare(before, abi.Freeze(parse(t, strings.ReplaceAll(document, c.old, c.new)), "v1")) {
			got = append(got, change.Text)
		}
		if strings.Join(got, "; ") != c.want {
			t.Errorf("%s: %q, want '%s'", c.why, got, c.want)
		}
	}
}
