package imports

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/internal/workbench"
	"github.com/kilnvm/kiln/internal/workbench/domainimport"
	"github.com/kilnvm/kiln/pkg/domain/imported"
	"github.com/kilnvm/kiln/pkg/record"
	"github.com/kilnvm/kiln/test/guest"
	"github.com/kilnvm/kiln/test/libvirt"
	"github.com/kilnvm/kiln/test/nightly"
	"libvirt.org/go/libvirtxml"
)

// TestImportedGuestBoots: a guest that ran on plain libvirt boots its disk as an imported VM, and finds the same hardware: each PCI function with its
// configuration space, each ACPI table, the DMI table, CPUID, network cards, disks and the TPM are equal in every byte.
func TestImportedGuestBoots(t *testing.T) {
	nightly.Only(t) // two boots each
	t.Parallel()
	for why, words := range map[string][]string{"BIOS": nil, "EFI and TPM": WithEFIAndTPM} {
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
	words = append(slices.Clone(words), "MORE", "<interface type='user'><mac address='52:54:00:5c:00:02'/><model type='virtio'/></interface>")
	defined, err := d.Define(strings.ReplaceAll(Usual(root, data, log, words...), "NVRAM", nvram))
	if err != nil {
		t.Fatal(err)
	}
	before, err := BootOnce(t.Context(), d, "usual", log, 1)
	if err != nil {
		t.Fatal(err)
	}
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
		next.OS.NVRam = &libvirtxml.DomainNVRam{NVRam: nvram, Template: "/usr/share/OVMF/OVMF_VARS_4M.ms.fd"}
	}
	again, err := next.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Define(again); err != nil {
		t.Fatalf("%v\n%s", err, again)
	}
	after, err := BootOnce(t.Context(), d, next.Name, log, 2)
	if err != nil {
		t.Fatal(err)
	}

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
