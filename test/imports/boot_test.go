package imports

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/internal/workbench"
	"github.com/kilnvm/kiln/internal/workbench/domainimport"
	"github.com/kilnvm/kiln/pkg/domain/imported"
	"github.com/kilnvm/kiln/pkg/record"
	"github.com/kilnvm/kiln/test/guest"
	"github.com/kilnvm/kiln/test/libvirt"
	"github.com/kilnvm/kiln/test/nightly"
	"github.com/kilnvm/kiln/test/poll"
	"libvirt.org/go/libvirtxml"
)

// usual is a machine as tools for plain libvirt define it. libvirt assigns the addresses.
const usual = `<domain type='qemu'>
  <name>usual</name><uuid>0d3f3cb0-6a52-4bd5-9f5f-2f7a4e1c9d10</uuid>
  <memory unit='MiB'>MEMORY</memory><vcpu>2</vcpu>
  <os>FIRMWARE<type arch='x86_64' machine='q35'>hvm</type><boot dev='hd'/></os>
  <features><acpi/><apic/>FEATURES</features>
  <cpu mode='custom' match='exact'><model fallback='forbid'>qemu64</model></cpu>
  <clock offset='utc'><timer name='rtc' tickpolicy='catchup'/><timer name='pit' tickpolicy='delay'/><timer name='hpet' present='no'/></clock>
  <pm><suspend-to-mem enabled='no'/><suspend-to-disk enabled='no'/></pm>
  <devices>
    <disk type='file' device='disk'><driver name='qemu' type='raw'/><source file='ROOT'/><target dev='vda' bus='virtio'/></disk>
    <disk type='file' device='disk'><driver name='qemu' type='raw'/><source file='DATA'/><target dev='sda' bus='scsi'/><serial>D-7</serial></disk>
    <controller type='scsi' model='virtio-scsi'/>
    <controller type='usb' model='qemu-xhci' ports='15'/>
    <controller type='pci' model='pcie-root'/>PORTS
    <interface type='user'><mac address='52:54:00:5c:00:01'/><model type='virtio'/></interface>
    <interface type='user'><mac address='52:54:00:5c:00:02'/><model type='virtio'/></interface>
    <serial type='null'><log file='LOG' append='on'/><target type='isa-serial' port='0'/></serial>
    <channel type='unix'><source mode='bind'/><target type='virtio' name='org.qemu.guest_agent.0'/></channel>
    <input type='tablet' bus='usb'/>
    <video><model type='vga'/></video><graphics type='vnc' port='-1'/>
    <memballoon model='virtio'/>
    <rng model='virtio'><backend model='random'>/dev/urandom</backend></rng>TPM
  </devices>
</domain>`

// TestImportedGuestBoots: a guest that ran on plain libvirt boots its disk as an imported VM, and finds the same hardware: each PCI function with its
// configuration space, each ACPI table, the DMI table, CPUID, network cards, disks and the TPM are equal in every byte.
func TestImportedGuestBoots(t *testing.T) {
	nightly.Only(t) // two boots each
	t.Parallel()
	for why, words := range map[string][]string{
		"BIOS": {"FIRMWARE", "", "FEATURES", "<vmport state='off'/>", "TPM", "", "MEMORY", "256"},
		"EFI and TPM": {"FEATURES", "<smm state='on'/>", "MEMORY", "512", "TPM", "<tpm model='tpm-crb'><backend type='emulator' version='2.0'/></tpm>",
			"FIRMWARE", "<loader readonly='yes' secure='yes' type='pflash'>/usr/share/OVMF/OVMF_CODE_4M.secboot.fd</loader>" +
				"<nvram template='/usr/share/OVMF/OVMF_VARS_4M.fd'>NVRAM</nvram>"},
	} {
		t.Run(why, func(t *testing.T) { checkImportedBoot(t, words) })
	}
}

// checkImportedBoot boots the usual machine, imports it, and boots it again. words replace words of usual.
func checkImportedBoot(t *testing.T, words []string) {
	d := libvirt.Start(t)
	dir := t.TempDir()
	root, err := guest.BuildDisk(dir)
	if err != nil {
		t.Fatal(err)
	}
	data, log, nvram := filepath.Join(dir, "data"), filepath.Join(dir, "serial.log"), filepath.Join(dir, "nvram.fd")
	if err := os.WriteFile(data, make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	ports := strings.Repeat("<controller type='pci' model='pcie-root-port'/>", 14)
	text := strings.NewReplacer(append([]string{"ROOT", root, "DATA", data, "LOG", log, "PORTS", ports}, words...)...).Replace(usual)
	defined, err := d.Define(strings.ReplaceAll(text, "NVRAM", nvram))
	if err != nil {
		t.Fatal(err)
	}
	before := bootOnce(t, d, "usual", log, 1)
	doc, err := imported.Parse([]byte(defined))
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Undefine("usual"); err != nil {
		t.Fatal(err)
	}
	made, err := domainimport.Make(t.Context(), &workbench.Bench{Runtime: "pod"}, doc, domainimport.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if made.Report.Verdict != record.Compatible {
		t.Errorf("the report says '%s': %+v", made.Report.Verdict, made.Report.Elements)
	}
	next := onThisHost(made.Next, map[string]string{"vda": root, "sda": data}, log)
	if next.OS.Loader != nil {
		next.OS.NVRam = &libvirtxml.DomainNVRam{NVRam: nvram, Template: "/usr/share/OVMF/OVMF_VARS_4M.fd"}
	}
	again, err := next.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Define(again); err != nil {
		t.Fatalf("%v\n%s", err, again)
	}
	after := bootOnce(t, d, next.Name, log, 2)

	if diff := cmp.Diff(before.NICs, after.NICs); diff != "" || len(after.NICs) != 2 {
		t.Errorf("network cards (-before +after):\n%s", diff)
	}
	if diff := cmp.Diff(before.Disks, after.Disks); diff != "" || len(after.Disks) < 2 {
		t.Errorf("disks (-before +after):\n%s", diff)
	}
	if diff := cmp.Diff(strings.Split(before.Text(), "\n"), strings.Split(after.Text(), "\n")); diff != "" || len(after.PCI) < 10 {
		t.Errorf("the hardware (-before +after):\n%s", diff)
	}
}

// bootOnce starts a domain, returns the report of its boot with this number, and shuts it down.
func bootOnce(t *testing.T, d *libvirt.Daemon, name, log string, boot int) guest.Report {
	t.Helper()
	if err := d.Create(name); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Destroy(name) }) // it has ended, unless the test failed
	ctx, cancel := context.WithTimeout(t.Context(), guest.BootTimeout)
	defer cancel()
	report, err := guest.WaitReport(ctx, log, boot)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Shutdown(name); err != nil {
		t.Fatal(err)
	}
	off := poll.Until(2*time.Minute, func() bool {
		state, err := d.State(name)
		return err == nil && state == "shut off"
	})
	if !off {
		t.Fatalf("%s does not power off", name)
	}
	return report
}

// onThisHost gives a domain what this host has: no KVM, the images by target name, user networking, and a log of its serial port.
func onThisHost(given *libvirtxml.Domain, images map[string]string, log string) *libvirtxml.Domain {
	dom := *given
	devices := *given.Devices
	dom.Type, dom.Devices, devices.Graphics, devices.Emulator = "qemu", &devices, nil, ""
	dom.SecLabel, dom.Resource, dom.MemoryBacking = nil, nil, nil
	for i := range devices.Disks {
		disk := &devices.Disks[i]
		disk.Source = &libvirtxml.DomainDiskSource{File: &libvirtxml.DomainDiskSourceFile{File: images[disk.Target.Dev]}}
		disk.BackingStore, disk.Driver = nil, &libvirtxml.DomainDiskDriver{Name: "qemu", Type: "raw"}
	}
	for i := range devices.Interfaces {
		devices.Interfaces[i].Source = &libvirtxml.DomainInterfaceSource{User: &libvirtxml.DomainInterfaceSourceUser{}}
		devices.Interfaces[i].Target, devices.Interfaces[i].Backend, devices.Interfaces[i].MTU = nil, nil, nil
	}
	for i := range devices.Channels {
		devices.Channels[i].Source = &libvirtxml.DomainChardevSource{UNIX: &libvirtxml.DomainChardevSourceUNIX{Mode: "bind"}}
	}
	for i := range devices.Serials {
		devices.Serials[i].Source, devices.Serials[i].Log = &libvirtxml.DomainChardevSource{Null: &libvirtxml.DomainChardevSourceNull{}},
			&libvirtxml.DomainChardevLog{File: log, Append: "on"}
	}
	devices.Consoles = nil
	return &dom
}
