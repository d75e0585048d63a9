package render

import (
	"slices"
	"strings"
	"testing"

	"github.com/kilnvm/kiln/pkg/record"
	v1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"
)

// bareVMI is a VMI for the machine of bareDomain.
const bareVMI = `
metadata: {name: web, namespace: shop, uid: 7f8f8c5e-0000-4000-8000-000000000001}
spec:
  architecture: amd64
  domain:
    machine: {type: pc-q35-7.2}
    cpu: {cores: 2, sockets: 1, threads: 1, maxSockets: 1, model: qemu64}
    memory: {guest: 1Gi, maxGuest: 1Gi}
    firmware: {uuid: 0d3f3cb0-6a52-4bd5-9f5f-2f7a4e1c9d10}
    devices:
      autoattachGraphicsDevice: false
      disks: [{name: vda, disk: {bus: virtio}}]
      interfaces: [{name: net0, masquerade: {}, model: virtio, macAddress: "52:54:00:5c:00:01"}]
  networks: [{name: net0, pod: {}}]
  volumes: [{name: vda, emptyDisk: {capacity: 1Gi}}]
`

// bareDomain is a machine that lacks all that Kiln adds by itself, with the addresses that libvirt assigned.
const bareDomain = `<domain type='kvm'>
  <name>web</name><uuid>0d3f3cb0-6a52-4bd5-9f5f-2f7a4e1c9d10</uuid>
  <memory unit='KiB'>1048576</memory><vcpu placement='static'>2</vcpu>
  <os><type arch='x86_64' machine='pc-q35-7.2'>hvm</type><boot dev='hd'/></os>
  <features><acpi/></features>
  <cpu mode='custom' match='exact'><model fallback='forbid'>qemu64</model><topology sockets='1' dies='1' cores='2' threads='1'/></cpu>
  <clock offset='utc'/>
  <pm><suspend-to-mem enabled='no'/><suspend-to-disk enabled='no'/></pm>
  <devices>
    <disk type='file' device='disk'><target dev='vda' bus='virtio'/>
      <address type='pci' domain='0x0000' bus='0x03' slot='0x00' function='0x0'/></disk>
    <controller type='usb' index='0' model='qemu-xhci'><address type='pci' domain='0x0000' bus='0x02' slot='0x00' function='0x0'/></controller>
    <controller type='sata' index='0'><address type='pci' domain='0x0000' bus='0x00' slot='0x1f' function='0x2'/></controller>
    <controller type='pci' index='0' model='pcie-root'/>PORTS
    <interface type='network'><mac address='52:54:00:5c:00:01'/><source network='default'/><model type='virtio'/>
      <address type='pci' domain='0x0000' bus='0x01' slot='0x00' function='0x0'/></interface>
    <serial type='pty'><target type='isa-serial' port='0'><model name='isa-serial'/></target></serial>
    <input type='mouse' bus='ps2'/><input type='keyboard' bus='ps2'/>
    <memballoon model='virtio'><address type='pci' domain='0x0000' bus='0x04' slot='0x00' function='0x0'/></memballoon>
  </devices>
</domain>`

// barePorts are the root ports of bareDomain. None is locked.
const barePorts = `
    <controller type='pci' index='1' model='pcie-root-port'><model name='pcie-root-port'/><target chassis='1' port='0x10'/>
      <address type='pci' domain='0x0000' bus='0x00' slot='0x02' function='0x0' multifunction='on'/></controller>
    <controller type='pci' index='2' model='pcie-root-port'><model name='pcie-root-port'/><target chassis='2' port='0x11'/>
      <address type='pci' domain='0x0000' bus='0x00' slot='0x02' function='0x1'/></controller>
    <controller type='pci' index='3' model='pcie-root-port'><model name='pcie-root-port'/><target chassis='3' port='0x12'/>
      <address type='pci' domain='0x0000' bus='0x00' slot='0x02' function='0x2'/></controller>
    <controller type='pci' index='4' model='pcie-root-port'><model name='pcie-root-port'/><target chassis='4' port='0x13'/>
      <address type='pci' domain='0x0000' bus='0x00' slot='0x02' function='0x3'/></controller>`

// TestAdoptOmitsDefaults: a machine without Kiln's defaults boots without them, at each boot, and gets what its owner asks for later.
func TestAdoptOmitsDefaults(t *testing.T) {
	t.Parallel()
	given := decode[v1.VirtualMachineInstance](t, bareVMI)
	m := machineOf(t, given)
	var dom libvirtxml.Domain
	if err := dom.Unmarshal(strings.Replace(bareDomain, "PORTS", barePorts, 1)); err != nil {
		t.Fatal(err)
	}
	adopted, errs := Adopt(m, &dom, SamePlaces, true)
	if len(errs) > 0 || len(adopted.Changes) > 0 {
		t.Fatalf("%v, %v", errs, adopted.Changes)
	}
	want := []string{"channel.guest-agent", "controller.pci.2/hotplug", "controller.pci.3/hotplug", "controller.pci.4/hotplug", "controller.scsi.0",
		"controller.usb.0/onDemand", "controller.usb.0/ports", "controller.virtio-serial.0", "features/vmport", "interface.net0/rom",
		"memballoon.balloon/freePageReporting", "pm/suspend-to-disk", "pm/suspend-to-mem", "smbios"}
	if got := adopted.Record.OmittedDefaults; !slices.Equal(got, want) || adopted.Record.SchemaVersion != 3 || record.Check(&adopted.Record) != nil {
		t.Fatalf("version %d omits %q: %v", adopted.Record.SchemaVersion, got, record.Check(&adopted.Record))
	}
	// A VM's controller writes a serial into each VMI, which the record does not.
	m.VMI.Spec.Domain.Firmware.Serial = ""
	m.Frozen = &adopted.Record
	for boot := range 2 {
		out, errs := Domain(m)
		if len(errs) > 0 || out.Record.Digest != adopted.Record.Digest || !slices.Equal(out.Record.OmittedDefaults, want) || out.Record.SchemaVersion != 3 {
			t.Fatalf("boot %d: %v: %+v", boot, errs, out.Record)
		}
		m.Frozen = &out.Record
	}
	// The owner adds a disk on SCSI: the guest gets the controller, and keeps it when the disk is gone.
	more := *given.DeepCopy()
	more.Spec.Domain.Devices.Disks = append(more.Spec.Domain.Devices.Disks, v1.Disk{Name: "more", DiskDevice: v1.DiskDevice{Disk: &v1.DiskTarget{Bus: "scsi"}}})
	more.Spec.Volumes = append(more.Spec.Volumes, v1.Volume{Name: "more", VolumeSource: v1.VolumeSource{EmptyDisk: given.Spec.Volumes[0].EmptyDisk}})
	for _, sparse := range []v1.VirtualMachineInstance{more, given} {
		next := machineOf(t, sparse)
		next.Frozen = m.Frozen
		out, errs := Domain(next)
		if _, has := out.Record.Devices["controller.scsi.0"]; len(errs) > 0 || !has || slices.Contains(out.Record.OmittedDefaults, "controller.scsi.0") {
			t.Fatalf("%d disks: %v: %+v", len(sparse.Spec.Domain.Devices.Disks), errs, out.Record)
		}
		m.Frozen = &out.Record
	}
	// 'kilnvm.io/hardware: latest' has the guest boot without a record.
	m.Frozen = nil
	if out, errs := Domain(m); len(errs) > 0 || out.Record.OmittedDefaults != nil || len(out.Frontend.Devices.Channels) != 1 {
		t.Errorf("%v: %+v", errs, out.Record)
	}
}
