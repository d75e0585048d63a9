package kubevirt

import (
	"strings"
	"testing"

	"github.com/kilnvm/kiln/pkg/record"
)

const (
	virtioRoot = "<disk device='disk'><target dev='vda' bus='virtio'/><alias name='ua-root'/></disk>"
	sataData   = "<disk device='disk'><target dev='sda' bus='sata'/><alias name='ua-data'/></disk>"
	sataCDROM  = "<disk device='cdrom'><target dev='sdb' bus='sata'/><alias name='ua-cd'/></disk>"
)

// bootsFrom is a domain whose <os> has <boot dev='hd'>, as KubeVirt writes it where no device has bootOrder.
func bootsFrom(devices ...string) []byte {
	xml := string(domain("q35", devices...))
	if !strings.Contains(xml, "order=") {
		xml = strings.Replace(xml, "</type></os>", "</type><boot dev='hd'/></os>", 1)
	}
	return []byte(xml)
}

// TestBootDiskIsPutBack: the firmware boots the recorded disk wherever it is in the list. Where the VMI gives an order, that order counts.
func TestBootDiskIsPutBack(t *testing.T) {
	t.Parallel()
	ordered := strings.Replace(sataData, "</disk>", "<boot order='1'/></disk>", 1)
	for _, c := range []struct {
		why, disk, want string
		devices         []string
	}{
		{"another disk comes first", "root", "root", []string{sataData, virtioRoot}},
		{"it comes first", "root", "root", []string{virtioRoot, sataData}},
		{"the VMI gives an order", "root", "data", []string{ordered, virtioRoot}},
		{"the disk is gone", "root", "data", []string{sataData}},
		{"the disk is a CD-ROM now", "cd", "data", []string{sataCDROM, sataData}},
		{"the record is older", "", "data", []string{sataData, virtioRoot}},
	} {
		frozen := frozen(1)
		frozen.BootDisk = c.disk
		once, err := PutBack(bootsFrom(c.devices...), vmi(), frozen)
		if err != nil {
			t.Fatalf("%s: %v", c.why, err)
		}
		again, err := PutBack(once, vmi(), frozen)
		if err != nil || string(again) != string(once) {
			t.Errorf("%s: a second time gives other XML: %v\n%s\n%s", c.why, err, once, again)
		}
		captured, err := Capture(once, nil)
		if err != nil && !strings.Contains(err.Error(), "not a record") {
			t.Fatal(err)
		}
		if captured != nil && captured.BootDisk != c.want {
			t.Errorf("%s: boots '%s', want '%s'\n%s", c.why, captured.BootDisk, c.want, once)
		}
		if strings.Contains(string(once), "<boot dev") && strings.Contains(string(once), "<boot order") {
			t.Errorf("%s: libvirt refuses <boot dev> beside <boot order>\n%s", c.why, once)
		}
	}
	if err := record.Check(&record.Record{BootDisk: "../root"}); err == nil || !strings.Contains(err.Error(), "bootDisk '../root': must be the name of a disk") {
		t.Errorf("a record with a wrong name of a disk: %v", err)
	}
}
