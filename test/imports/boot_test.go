package imports

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/internal/workbench"
	"github.com/kilnvm/kiln/internal/workbench/domainimport"
	"github.com/kilnvm/kiln/pkg/domain/imported"
	"github.com/kilnvm/kiln/test/guest"
	"github.com/kilnvm/kiln/test/libvirt"
	"github.com/kilnvm/kiln/test/nightly"
	"github.com/kilnvm/kiln/test/poll"
	"libvirt.org/go/libvirtxml"
)

// usual is a machine as tools for plain libvirt define it. libvirt assigns the addresses.
const usual = `<domain type='qemu'>
  <name>usual</name><uuid>0d3f3cb0-6a52-4bd5-9f5f-2f7a4e1c9d10</uuid>
  <memory unit='MiB'>256</memory><vcpu>2</vcpu>
  <os><type arch='x86_64' machine='q35'>hvm</type><boot dev='hd'/></os>
  <features><acpi/><apic/><vmport state='off'/></features>
  <cpu mode='custom' match='exact'><model fallback='forbid'>qemu64</model></cpu>
  <clock offset='utc'><timer name='rtc' tickpolicy='catchup'/><timer name='pit' tickpolicy='delay'/><timer name='hpet' present='no'/></clock>
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
    <rng model='virtio'><backend model='random'>/dev/urandom</backend></rng>
  </devices>
</domain>`

// TestImportedGuestBoots: a guest that ran on plain libvirt boots its disk as an imported VM, and finds its devices where they were: it names its network
// cards and disks as before.
func TestImportedGuestBoots(t *testing.T) {
	nightly.Only(t) // two boots
	t.Parallel()
	d := libvirt.Start(t)
	dir := t.TempDir()
	root, err := guest.BuildDisk(dir)
	if err != nil {
		t.Fatal(err)
	}
	data, log := filepath.Join(dir, "data"), filepath.Join(dir, "serial.log")
	if err := os.WriteFile(data, make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	ports := strings.Repeat("<controller type='pci' model='pcie-root-port'/>", 14)
	defined, err := d.Define(strings.NewReplacer("ROOT", root, "DATA", data, "LOG", log, "PORTS", ports).Replace(usual))
	if err != nil {
		t.Fatal(err)
	}
	before := bootOnce(t, d, "usual", log, 1)
	if err := d.Undefine("usual"); err != nil {
		t.Fatal(err)
	}

	doc, err := imported.Parse([]byte(defined))
	if err != nil {
		t.Fatal(err)
	}
	made, err := domainimport.Make(t.Context(), &workbench.Bench{Runtime: "pod"}, doc, domainimport.Options{})
	if err != nil {
		t.Fatal(err)
	}
	next := onThisHost(made.Next, map[string]string{"vda": root, "sda": data}, log)
	text, err := next.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Define(text); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	after := bootOnce(t, d, next.Name, log, 2)

	if diff := cmp.Diff(before.NICs, after.NICs); diff != "" || len(after.NICs) != 2 {
		t.Errorf("network cards (-before +after):\n%s", diff)
	}
	if diff := cmp.Diff(before.Disks, after.Disks); diff != "" || len(after.Disks) < 2 {
		t.Errorf("disks (-before +after):\n%s", diff)
	}
	if diff := cmp.Diff(before.CPUs, after.CPUs); diff != "" || before.CPUModel != after.CPUModel {
		t.Errorf("CPUs %s and %s (-before +after):\n%s", before.CPUModel, after.CPUModel, diff)
	}
	if before.DMI["product_uuid"] == "" || before.DMI["product_uuid"] != after.DMI["product_uuid"] {
		t.Errorf("the UUID was '%s', and is '%s'", before.DMI["product_uuid"], after.DMI["product_uuid"])
	}
	// The report names the serial as an addition. All other strings of the DMI table stay.
	for name, value := range before.DMI {
		if after.DMI[name] != value && name != "product_serial" && name != "modalias" {
			t.Errorf("DMI %s was '%s', and is '%s'", name, value, after.DMI[name])
		}
	}
	checkPCI(t, before, after, made.Report)
}

// checkPCI checks that each PCI function is where it was, and that the report names the others.
func checkPCI(t *testing.T, before, after guest.Report, report domainimport.Report) {
	t.Helper()
	is := map[string]string{}
	for _, f := range after.PCI {
		is[f.Address] = fmt.Sprintf("%+v", f)
	}
	var moved []string
	for _, f := range before.PCI {
		if text := fmt.Sprintf("%+v", f); is[f.Address] != text {
			moved = append(moved, text+" is "+is[f.Address])
		}
		delete(is, f.Address)
	}
	if len(moved) > 0 {
		t.Errorf("PCI functions that changed:\n%s", strings.Join(moved, "\n"))
	}
	added := 0
	for _, e := range report.Elements {
		if e.Outcome == domainimport.Added {
			added++
		}
	}
	if len(is) > added {
		t.Errorf("the guest has more PCI functions than the report names: %v", slices.Collect(maps.Values(is)))
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
