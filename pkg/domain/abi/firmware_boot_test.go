package abi_test

import (
	"strings"
	"testing"

	"github.com/kilnvm/kiln/pkg/domain/abi"
	"github.com/kilnvm/kiln/pkg/record"
	"libvirt.org/go/libvirtxml"
)

// bootable is a domain whose disks are these, each 'name target bus' and 'device=' or 'order=' after that. Without an order it boots from 'hd'.
func bootable(t *testing.T, disks ...string) *libvirtxml.Domain {
	t.Helper()
	text, boot := "", `<boot dev="hd"/>`
	for _, disk := range disks {
		words, device, order := strings.Fields(disk), "disk", ""
		for _, word := range words[3:] {
			switch key, value, _ := strings.Cut(word, "="); key {
			case "device":
				device = value
			case "order":
				order, boot = `<boot order="`+value+`"/>`, ""
			}
		}
		text += `<disk type="file" device="` + device + `"><target dev="` + words[1] + `" bus="` + words[2] + `"/>` + order +
			`<alias name="ua-` + words[0] + `"/></disk>`
	}
	return parse(t, "<domain><os><type>hvm</type>"+boot+"</os><devices>"+text+"</devices></domain>")
}

// TestBootDisk: which disk libvirt has the firmware boot. TestLibvirtBootsTheSameDisk of pkg/domain/frontend asks libvirt.
func TestBootDisk(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		want  string
		disks []string
	}{
		{"", nil},
		{"a", []string{"a vda virtio", "b vdb virtio"}},
		{"a", []string{"b vdb virtio", "a vda virtio"}},
		{"b", []string{"b sda scsi", "a vda virtio"}},
		{"a", []string{"c sdc scsi", "b vda virtio", "a sda scsi"}},
		{"b", []string{"cd sda sata device=cdrom", "b vda virtio"}},
		{"b", []string{"cd sda sata device=cdrom", "a vda virtio", "b sdb sata"}},
		{"l", []string{"l sda scsi device=lun", "b vda virtio"}},
		{"b", []string{"a vda virtio", "b vdb virtio order=3"}},
		{"b", []string{"a vda virtio order=2", "b vdb virtio order=1"}},
		{"", []string{"a vda virtio order=2", "cd sda sata device=cdrom order=1"}},
	} {
		dom := bootable(t, c.disks...)
		if got := abi.BootDisk(dom); got != c.want {
			t.Errorf("%q boot from '%s', want '%s'", c.disks, got, c.want)
		}
		if got := abi.Freeze(dom, "v1").BootDisk; got != c.want {
			t.Errorf("%q: the record has '%s', want '%s'", c.disks, got, c.want)
		}
	}
}

// TestBootFrom: a domain that boots another disk first boots the given one, and has the digest of the domain that boots it by its list.
func TestBootFrom(t *testing.T) {
	t.Parallel()
	first, moved := bootable(t, "root vda virtio", "data sda scsi"), bootable(t, "data sda scsi", "root vda virtio")
	if abi.Same(first, moved) || abi.Digest(first) == abi.Digest(moved) {
		t.Error("two domains that boot other disks are the same")
	}
	abi.BootFrom(moved, "root")
	if got := abi.BootDisk(moved); got != "root" || moved.Devices.Disks[1].Boot == nil || len(moved.OS.BootDevices) > 0 {
		t.Errorf("boots '%s'", got)
	}
	if changes := abi.Changes(first, moved); len(changes) > 0 || abi.Digest(first) != abi.Digest(moved) || !abi.Same(first, moved) {
		t.Errorf("the same disk by an order and by the list: %q, %t, %s, %s", changes, abi.Same(first, moved), abi.Digest(first), abi.Digest(moved))
	}
	for _, name := range []string{"root", "absent"} {
		as := bootable(t, "root vda virtio", "data sda scsi")
		if abi.BootFrom(as, name); as.Devices.Disks[0].Boot != nil || len(as.OS.BootDevices) != 1 {
			t.Errorf("'%s' changes a domain that boots root", name)
		}
	}
}

// TestBootChanges: an edit that moves the boot breaks the guest's hardware, unless the owner asks for it.
func TestBootChanges(t *testing.T) {
	t.Parallel()
	plain := []string{"root vda virtio", "data sda scsi"}
	for _, c := range []struct {
		why    string
		before []string
		after  []string
		want   record.Verdict
		text   string
	}{
		{"the list is reordered", plain, []string{"data sda scsi", "root vda virtio"}, record.Breaks,
			"what the firmware boots changes from disk 'root' to disk 'data'"},
		{"a disk on another bus comes first", []string{"root vda virtio"}, []string{"new sda sata", "root vda virtio"}, record.Breaks,
			"disk 'new' is added; what the firmware boots changes from disk 'root' to disk 'new'"},
		{"a LUN comes first", []string{"root vda virtio"}, []string{"new sda scsi device=lun", "root vda virtio"}, record.Breaks,
			"disk 'new' is added; what the firmware boots changes from disk 'root' to disk 'new'"},
		{"a CD-ROM comes first", []string{"root vda virtio"}, []string{"cd sda sata device=cdrom", "root vda virtio"}, record.NeedsRestart, "disk 'cd' is added"},
		{"the boot disk is replaced", []string{"root vda virtio"}, []string{"next vda virtio"}, record.Breaks,
			"disk 'root' is removed; disk 'next' is added; what the firmware boots changes from disk 'root' to disk 'next'"},
		{"the owner asks for another", plain, []string{"root vda virtio", "data sda scsi order=1"}, record.NeedsRestart,
			"what the firmware boots changes from disk 'root' to disk 'data'"},
		{"the owner writes down what is booted", plain, []string{"root vda virtio order=1", "data sda scsi"}, record.Compatible, ""},
		{"the owner no longer asks", []string{"root vda virtio", "data sda scsi order=4"}, plain, record.Breaks,
			"what the firmware boots changes from disk 'data' to disk 'root'"},
		{"a second one is tried after it", []string{"root vda virtio order=1", "data sda scsi"}, []string{"root vda virtio order=1", "data sda scsi order=2"},
			record.NeedsRestart, "disk 'data' changes its boot.order from none to '2'; disk 'root' changes its boot.order from none to '1'; " +
				"what the firmware boots changes"},
	} {
		before, after := bootable(t, c.before...), bootable(t, c.after...)
		changes := abi.Compare(before, after)
		var texts []string
		for _, change := range changes {
			texts = append(texts, change.Text)
		}
		if got := record.Judge(changes); got != c.want || strings.Join(texts, "; ") != c.text {
			t.Errorf("%s: '%s', want '%s': %q", c.why, got, c.want, texts)
		}
		if (abi.Digest(before) == abi.Digest(after)) != (len(changes) == 0) {
			t.Errorf("%s: %d changes, and the digests say otherwise", c.why, len(changes))
		}
	}
}
