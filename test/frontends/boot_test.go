package frontends_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/kilnvm/kiln/pkg/domain/abi"
	"github.com/kilnvm/kiln/pkg/domain/frontend"
	"github.com/kilnvm/kiln/test/frontends"
	"github.com/kilnvm/kiln/test/libvirt"
	"k8s.io/utils/ptr"
	v1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"
)

// disksOf returns a guest with these disks, each 'name bus', 'name bus cdrom' or 'name bus lun'.
func disksOf(t *testing.T, name string, disks ...string) frontend.Input {
	t.Helper()
	in := frontends.With(t, "amd64", name, "spec: {domain: {cpu: {model: qemu64, cores: 1}, memory: {guest: 64Mi}}}")
	for _, text := range disks {
		words := strings.Fields(text)
		d, bus := v1.Disk{Name: words[0]}, v1.DiskBus(words[1])
		switch strings.Join(words[2:], "") {
		case "":
			d.Disk = &v1.DiskTarget{Bus: bus}
		case "cdrom":
			d.CDRom = &v1.CDRomTarget{Bus: bus, ReadOnly: ptr.To(true)}
		case "lun":
			d.LUN = &v1.LunTarget{Bus: bus}
		}
		in.VMI.Spec.Domain.Devices.Disks = append(in.VMI.Spec.Domain.Devices.Disks, d)
		in.VMI.Spec.Volumes = append(in.VMI.Spec.Volumes, v1.Volume{Name: d.Name, VolumeSource: v1.VolumeSource{EmptyDisk: &v1.EmptyDiskSource{}}})
	}
	return in
}

var (
	bootIndex   = regexp.MustCompile(`"bootindex":1\b`)
	deviceAlias = regexp.MustCompile(`"id":"ua-([a-z0-9]+)"`)
)

// TestLibvirtBootsTheSameDisk asks libvirt for QEMU's arguments: the disk with bootindex 1 is the one that the record has.
func TestLibvirtBootsTheSameDisk(t *testing.T) {
	t.Parallel()
	_, client := connectedDaemon(t)
	for _, disks := range [][]string{
		{"a virtio", "b virtio"}, {"b scsi", "a virtio"}, {"a virtio", "b scsi"}, {"c sata", "a virtio", "b sata"}, {"a usb", "b virtio"},
		{"cd sata cdrom", "a virtio"}, {"cd sata cdrom", "a virtio", "b sata"}, {"cd scsi cdrom", "l scsi lun", "a virtio"}, {"l scsi lun", "a virtio"},
	} {
		dom := frontends.Rendered(t, disksOf(t, "list", disks...))
		// Target names against the order of the list, as a record may have them.
		swapped := frontends.Rendered(t, disksOf(t, "swapped", disks...))
		if two := swapped.Devices.Disks; two[0].Target.Bus == two[1].Target.Bus {
			two[0].Target.Dev, two[1].Target.Dev = two[1].Target.Dev, two[0].Target.Dev
			two[0].Address, two[1].Address = two[1].Address, two[0].Address
		}
		for _, dom := range []*libvirtxml.Domain{dom, swapped} {
			frontends.AddSources(dom)
			arguments, err := client.ConnectDomainXMLToNative("qemu-argv", frontends.Printed(t, dom), 0)
			if err != nil {
				t.Fatalf("%q: %v", disks, err)
			}
			var booted string
			for _, argument := range strings.Split(arguments, "-device ") {
				if found := deviceAlias.FindStringSubmatch(argument); found != nil && bootIndex.MatchString(argument) {
					booted = found[1]
				}
			}
			if got := abi.BootDisk(dom); booted == "" || got != booted {
				t.Errorf("%q (%s): libvirt boots '%s', the record has '%s'", disks, dom.Name, booted, got)
			}
		}
	}
}

// TestTheRecordedDiskBoots starts guests after their lists of disks were edited. Each disk has a boot sector that writes its name to the serial port.
func TestTheRecordedDiskBoots(t *testing.T) {
	t.Parallel()
	daemon := libvirt.Start(t)
	first := frontends.Rendered(t, disksOf(t, "first", "root virtio", "data scsi"))
	frozen := abi.Freeze(first, frontends.Defaults.Version)
	for name, c := range map[string]struct {
		disks []string
		want  string
	}{
		"reordered": {[]string{"data scsi", "root virtio"}, "root"},
		"sata":      {[]string{"new sata", "root virtio", "data scsi"}, "root"},
		"samebus":   {[]string{"new virtio", "root virtio", "data scsi"}, "root"},
		"removed":   {[]string{"data scsi", "root virtio"}[:1], "data"},
	} {
		in := disksOf(t, "boots-"+name, c.disks...)
		in.Frozen = &frozen
		dom := frontends.Rendered(t, in)
		frontends.AddSources(dom)
		frontends.AddFiles(t, dom)
		for _, d := range dom.Devices.Disks {
			if err := os.WriteFile(d.Source.File.File, bootSector(abi.Name("disk", d.Alias)), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		port := filepath.Join(t.TempDir(), "serial")
		for i := range dom.Devices.Serials {
			dom.Devices.Serials[i].Source = &libvirtxml.DomainChardevSource{File: &libvirtxml.DomainChardevSourceFile{Path: port}}
		}
		dom.Devices.Consoles = nil
		if _, err := daemon.Define(frontends.Printed(t, dom)); err != nil {
			t.Fatal(err)
		}
		if err := daemon.Create(dom.Name); err != nil {
			t.Fatal(err)
		}
		console := ""
		for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline) && !strings.Contains(console, "."); time.Sleep(50 * time.Millisecond) {
			text, _ := os.ReadFile(port)
			console = string(text)
		}
		if err := daemon.Destroy(dom.Name); err != nil {
			t.Error(err)
		}
		if !strings.Contains(console, "booted "+c.want+".") {
			t.Errorf("%s: the guest says %q, want disk '%s'", name, console, c.want)
		}
	}
}

// bootSector returns an image of 1 MiB that writes 'booted NAME.' to the first serial port and halts.
func bootSector(name string) []byte {
	image := make([]byte, 1<<20)
	code := []byte{0xba, 0xf8, 0x03} // mov dx, 0x3f8
	for _, letter := range []byte("booted " + name + ".") {
		code = append(code, 0xb0, letter, 0xee) // mov al, letter; out dx, al
	}
	copy(image, append(code, 0xf4, 0xeb, 0xfd)) // hlt; jmp to hlt
	image[510], image[511] = 0x55, 0xaa
	return image
}
