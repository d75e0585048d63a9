package imported

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"
)

// readText reads a domain.
func readText(t *testing.T, text string, o Options) *Reading {
	t.Helper()
	doc, err := Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	reading, err := Read(doc, o)
	if err != nil {
		t.Fatal(err)
	}
	return reading
}

// TestRead: each element with a field becomes this field, and the others have a note.
func TestRead(t *testing.T) {
	reading := readText(t, shop, Options{Namespace: "shop", Networks: map[string]string{"br_dmz": "shared/dmz"}, Claims: map[string]string{"sda": "old-data"}})
	got, err := yaml.Marshal(reading.VM.Spec.Template.Spec)
	if err != nil {
		t.Fatal(err)
	}
	const want = `architecture: amd64
domain:
  clock:
    timer:
      hpet:
        present: false
      rtc:
        present: true
        tickPolicy: catchup
    utc: {}
  cpu:
    cores: 2
    features:
    - name: aes
      policy: require
    maxSockets: 2
    model: Westmere
    sockets: 1
    threads: 1
  devices:
    autoattachGraphicsDevice: true
    autoattachInputDevice: false
    autoattachMemBalloon: false
    autoattachPodInterface: false
    autoattachSerialConsole: false
    disks:
    - cache: none
      disk:
        bus: virtio
      io: native
      name: vda
    - disk:
        bus: sata
      name: sda
      serial: DATA-7
    - cdrom:
        bus: sata
        readonly: true
      name: sdb
    inputs:
    - bus: usb
      name: input0
      type: tablet
    interfaces:
    - macAddress: 52:54:00:6b:3c:58
      masquerade: {}
      model: virtio
      name: net0
    - bridge: {}
      macAddress: 52:54:00:6b:3c:59
      model: e1000e
      name: net1
      state: down
    sound:
      model: ich9
      name: sound
    tpm:
      persistent: true
    video:
      type: virtio
    watchdog:
      i6300esb:
        action: poweroff
      name: watchdog
  features:
    acpi:
      enabled: true
    apic:
      enabled: true
    hyperv:
      relaxed:
        enabled: true
      spinlocks:
        enabled: true
        spinlocks: 8191
  firmware:
    bootloader:
      efi:
        persistent: false
        secureBoot: false
    uuid: 7d1ef6a4-3f0b-4ac4-8a0e-6a2f6f1f0c11
  machine:
    type: q35
  memory:
    guest: 4Gi
    maxGuest: 4Gi
  resources: {}
networks:
- name: net0
  pod: {}
- multus:
    networkName: shared/dmz
  name: net1
volumes:
- name: vda
  persistentVolumeClaim:
    claimName: web-shop-1-vda
- name: sda
  persistentVolumeClaim:
    claimName: old-data
`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if reading.VM.Name != "web-shop-1" || reading.VM.Namespace != "shop" || *reading.VM.Spec.RunStrategy != "Halted" {
		t.Errorf("VM %s/%s with runStrategy %s", reading.VM.Namespace, reading.VM.Name, *reading.VM.Spec.RunStrategy)
	}
	wantSources := []Source{
		{Device: "disk.vda", From: "/images/shop.qcow2", Format: "qcow2", To: "PersistentVolumeClaim web-shop-1-vda", Claim: "web-shop-1-vda"},
		{Device: "disk.sda", From: "/dev/vg/data", To: "PersistentVolumeClaim old-data"},
		{Device: "interface.net0", From: "default", To: "the network of the pod"},
		{Device: "interface.net1", From: "br_dmz", To: "NetworkAttachmentDefinition shared/dmz"},
	}
	if diff := cmp.Diff(wantSources, reading.Sources); diff != "" {
		t.Errorf("sources (-want +got):\n%s", diff)
	}
	var noted []string
	for _, note := range reading.Notes {
		noted = append(noted, note.Device+note.Element)
	}
	if diff := cmp.Diff([]string{"devices/disk[3]", "devices/sound[1]", "tpm.tpm", "devices/hostdev[0]"}, noted); diff != "" {
		t.Errorf("notes (-want +got):\n%s", diff)
	}
	if reading.OtherBoard || reading.NoAddresses {
		t.Errorf("a domain of q35 with addresses: %t %t", reading.OtherBoard, reading.NoAddresses)
	}
}

// TestReadElsewhere: another architecture has its own defaults, and a domain of another machine type is still read.
func TestReadElsewhere(t *testing.T) {
	const domain = `<domain type='qemu'><name>d</name><memory>262144</memory><os>%s</os><devices>%s</devices></domain>`
	for _, test := range []struct {
		why, os, devices string
		holds            func(*Reading) bool
	}{
		{"arm64 has EFI and a CPU of its own", "<type arch='aarch64' machine='virt-7.2'>hvm</type>", "", func(r *Reading) bool {
			return r.VM.Spec.Template.Spec.Domain.Firmware.Bootloader.EFI != nil && !r.OtherBoard
		}},
		{"i440fx is another board", "<type arch='x86_64' machine='pc-i440fx-7.2'>hvm</type>", "<disk device='cdrom'><target dev='hda' bus='ide'/></disk>",
			func(r *Reading) bool {
				return r.OtherBoard && r.VM.Spec.Template.Spec.Domain.Devices.Disks[0].CDRom.Bus == "sata"
			}},
		{"a disk on IDE becomes one on SATA", "<type arch='x86_64' machine='pc'>hvm</type>",
			"<disk device='disk'><source file='/a'/><target dev='hda' bus='ide'/></disk>",
			func(r *Reading) bool { return r.VM.Spec.Template.Spec.Domain.Devices.Disks[0].Disk.Bus == "sata" }},
		{"s390x has SCSI", "<type arch='s390x' machine='s390-ccw-virtio'>hvm</type>", "<disk device='cdrom'><target dev='hda' bus='ide'/></disk>",
			func(r *Reading) bool { return r.VM.Spec.Template.Spec.Domain.Devices.Disks[0].CDRom.Bus == "scsi" }},
		{"a device of the host of an unknown kind", "<type arch='x86_64' machine='q35'>hvm</type>", "<hostdev mode='subsystem' type='later'/>",
			func(r *Reading) bool { return len(r.Notes) == 1 && r.Notes[0].Element == "devices/hostdev[0]" }},
		{"a channel of SPICE is not the channel of the guest agent", "<type arch='x86_64' machine='q35'>hvm</type>",
			"<channel type='spicevmc'><target type='virtio' name='com.redhat.spice.0'/></channel>",
			func(r *Reading) bool { return len(r.Notes) == 1 && r.Notes[0].Element == "devices/channel[0]" }},
		{"the order of <boot dev>", "<type arch='x86_64' machine='q35'>hvm</type><boot dev='network'/><boot dev='hd'/>",
			"<disk device='disk'><source file='/a'/><target dev='vda' bus='virtio'/></disk><interface type='user'><model type='virtio'/></interface>",
			func(r *Reading) bool {
				devices := r.VM.Spec.Template.Spec.Domain.Devices
				return *devices.Interfaces[0].BootOrder == 1 && *devices.Disks[0].BootOrder == 2
			}},
		{"two cards of user networking cannot both have the pod's", "<type arch='x86_64' machine='q35'>hvm</type>",
			"<interface type='user'/><interface type='user'/>", func(r *Reading) bool {
				networks := r.VM.Spec.Template.Spec.Networks
				return networks[0].Pod != nil && networks[1].Multus != nil && networks[1].Multus.NetworkName == "user"
			}},
	} {
		if r := readText(t, fmt.Sprintf(domain, test.os, test.devices), Options{}); !test.holds(r) {
			text, _ := yaml.Marshal(r.VM.Spec.Template.Spec)
			t.Errorf("%s: it does not hold:\n%s", test.why, text)
		}
	}
}

// TestParseRefuses: what is no domain, or could exhaust the memory, gets an error that says what is wrong.
func TestParseRefuses(t *testing.T) {
	const laughs = `<!DOCTYPE domain [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;">]><domain><name>&b;</name></domain>`
	for want, text := range map[string]string{
		"document type":                laughs,
		"invalid character entity &b;": "<domain><name>&b;</name></domain>",
		"no element":                   "",
		"begins with <domain>":         "<domstatus><domain/></domstatus>",
		"'a' and 'b'":                  "<domain><name>a</name></domain><domain><name>b</name></domain>",
		"at most 1000":                 "<domain><devices>" + strings.Repeat("<disk/>", 10_000) + "</devices></domain>",
		"deeper than 512":              strings.Repeat("<domain>", 600),
		"more than 100000 elements":    "<domain>" + strings.Repeat("<a/>", 200_000),
		"no domain has more than 4":    strings.Repeat("<!-- -->", 100<<20/8),
		"illegal character":            "<domain><name>a\x01b</name></domain>",
		"unexpected EOF":               "<domain><name>",
	} {
		if _, err := Parse([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want '%s', got %v", want, err)
		}
	}
}

// TestReadRefuses: another hypervisor or architecture is refused as a whole.
func TestReadRefuses(t *testing.T) {
	for want, text := range map[string]string{
		"another hypervisor":         "<domain type='xen'><name>a</name></domain>",
		"'riscv64' is not supported": "<domain type='kvm'><os><type arch='riscv64'/></os></domain>",
		"with the architecture":      "<domain type='kvm'><os/></domain>",
		"no <memory>":                "<domain type='kvm'><name>a</name><os><type arch='x86_64'/></os></domain>",
		"no amount of memory":        "<domain type='kvm'><name>a</name><memory unit='TiB'>18446744073709551615</memory><os><type arch='x86_64'/></os></domain>",
		"which no VM can have":       "<domain type='kvm'><name>../../</name><memory>1</memory><os><type arch='x86_64'/></os></domain>",
		"more than a guest can have": "<domain type='kvm'><name>a</name><memory>1</memory><vcpu>4294967295</vcpu><os><type arch='x86_64'/></os></domain>",
	} {
		doc, err := Parse([]byte(text))
		if err == nil {
			_, err = Read(doc, Options{})
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want '%s', got %v", want, err)
		}
	}
}

// FuzzRead: any text is an error, or a VM with names that objects can have.
func FuzzRead(f *testing.F) {
	f.Add([]byte(shop))
	f.Add([]byte(`<domain type='qemu'><name>d</name><memory>1</memory><os><type arch='s390x'/></os></domain>`))
	f.Add([]byte(`<domain type='kvm'><name>a</name><cpu><numa><cell memory='1'/></numa></cpu><os><type arch='aarch64'/></os></domain>`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		doc, err := Parse(raw)
		if err != nil {
			return
		}
		reading, err := Read(doc, Options{})
		if err != nil {
			return
		}
		names := map[string]bool{}
		check := func(name string) {
			if len(validation.IsDNS1123Subdomain(name)) > 0 {
				t.Errorf("no object can have the name '%s'", name)
			}
		}
		check(reading.VM.Name)
		for _, volume := range reading.VM.Spec.Template.Spec.Volumes {
			check(volume.PersistentVolumeClaim.ClaimName)
			if names[volume.Name] || len(validation.IsDNS1123Label(volume.Name)) > 0 {
				t.Errorf("two volumes have the name '%s', or no volume can have it", volume.Name)
			}
			names[volume.Name] = true
		}
		for _, network := range reading.VM.Spec.Template.Spec.Networks {
			if network.Multus != nil {
				check(network.Multus.NetworkName)
			}
		}
		for _, setting := range doc.Root.Settings() {
			_ = setting.String()
		}
	})
}

// TestReadUnits: amounts of memory are in KiB afterwards, whatever their author wrote.
func TestReadUnits(t *testing.T) {
	doc, err := Parse([]byte(`<domain type='kvm'><name>a</name><maxMemory slots='4' unit='GiB'>16</maxMemory><memory unit='GiB'>4</memory><vcpu>2</vcpu>
<os><type arch='x86_64' machine='q35'>hvm</type></os>
<cpu><numa><cell id='0' cpus='0' memory='2' unit='GiB'/><cell id='1' cpus='1' memory='2048' unit='MiB'/></numa></cpu><devices/></domain>`))
	if err != nil {
		t.Fatal(err)
	}
	reading, err := Read(doc, Options{})
	if err != nil {
		t.Fatal(err)
	}
	dom := reading.Domain
	if dom.Memory.Value != 4<<20 || dom.Memory.Unit != "KiB" || dom.MaximumMemory.Value != 16<<20 || dom.MaximumMemory.Unit != "KiB" {
		t.Errorf("memory %+v, at most %+v", dom.Memory, dom.MaximumMemory)
	}
	for _, cell := range dom.CPU.Numa.Cell {
		if cell.Memory != 2<<20 || cell.Unit != "KiB" {
			t.Errorf("NUMA node %+v", cell)
		}
	}
}
