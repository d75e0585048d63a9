package libvirt

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/kilnvm/kiln/test/guest"
)

// TestBoot starts the test guest, reads its report from the serial log file that QEMU writes, compares it
// with the domain, and presses the power button.
func TestBoot(t *testing.T) {
	t.Parallel()
	d := Start(t)
	dir := t.TempDir()
	kernel, initramfs, err := guest.Build(dir)
	if err != nil {
		t.Fatal(err)
	}
	disk := filepath.Join(dir, "disk")
	if err := os.WriteFile(disk, make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	log := filepath.Join(dir, "serial.log")
	xml := strings.NewReplacer("KERNEL", kernel, "INITRD", initramfs, "CMDLINE", guest.Cmdline, "DISK", disk, "LOG", log).Replace(bootable)
	if err := Validate(xml); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Define(xml); err != nil {
		t.Fatal(err)
	}
	if err := d.Create("boot"); err != nil {
		t.Fatal(err)
	}
	if state, err := d.State("boot"); err != nil || state != "running" {
		t.Fatalf("state is '%s' (%v), want 'running'", state, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), guest.BootTimeout)
	defer cancel()
	report, err := guest.WaitReport(ctx, log, 1)
	if err != nil {
		t.Fatal(err)
	}
	compare(t, report)
	if err := d.Shutdown("boot"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the guest has powered off", func() bool {
		state, err := d.State("boot")
		return err == nil && state == "shut off"
	})
}

// bootable has every address that compare expects.
const bootable = `<domain type="qemu"><name>boot</name>
<uuid>5d307ca9-b3ef-428c-8861-06e72d69f223</uuid>
<memory unit="MiB">256</memory><vcpu>2</vcpu>
<os><type arch="x86_64" machine="pc-q35-7.2">hvm</type><kernel>KERNEL</kernel><initrd>INITRD</initrd><cmdline>CMDLINE</cmdline></os>
<features><acpi/></features>
<cpu><topology sockets="2" dies="1" cores="1" threads="1"/></cpu>
<on_poweroff>destroy</on_poweroff>
<devices>
<controller type="pci" index="0" model="pcie-root"/>
<controller type="pci" index="1" model="pcie-root-port"><address type="pci" domain="0x0000" bus="0x00" slot="0x02" function="0x0"/></controller>
<disk type="file" device="disk"><driver name="qemu" type="raw"/><source file="DISK"/><target dev="vda" bus="virtio"/>
<serial>D-1</serial><address type="pci" domain="0x0000" bus="0x01" slot="0x00" function="0x0"/></disk>
<interface type="user"><mac address="52:54:00:11:22:33"/><model type="virtio"/>
<address type="pci" domain="0x0000" bus="0x00" slot="0x03" function="0x0"/></interface>
<serial type="null"><log file="LOG" append="on"/><target type="isa-serial" port="0"/></serial>
<memballoon model="none"/>
</devices></domain>`

func compare(t *testing.T, report guest.Report) {
	t.Helper()
	sockets, cores, threads, err := report.Topology()
	if err != nil || sockets != 2 || cores != 1 || threads != 1 {
		t.Errorf("topology is %d:%d:%d (%v), want 2:1:1", sockets, cores, threads, err)
	}
	if uuid := report.DMI["product_uuid"]; uuid != "5d307ca9-b3ef-428c-8861-06e72d69f223" {
		t.Errorf("DMI UUID is '%s'", uuid)
	}
	disks := []guest.Disk{{Name: "vda", Bytes: 1 << 20, Serial: "D-1", Bus: "virtio", Port: -1}}
	machineOwn := cmpopts.IgnoreFields(guest.Disk{}, "PCI", "Model", "LogicalBlock", "PhysicalBlock", "Queues", "Path")
	if diff := cmp.Diff(disks, report.Disks, machineOwn); diff != "" {
		t.Errorf("disks (-want +got):\n%s", diff)
	}
	// libvirt adds a root port of its own in a lower slot, which moves the guest's bus numbers, not the place.
	if len(report.Disks) == 1 && report.Place(report.Disks[0].PCI) != "02.0/00.0" {
		t.Errorf("disk is at '%s', want '02.0/00.0'", report.Place(report.Disks[0].PCI))
	}
	nics := []guest.NIC{{Name: "eth0", MAC: "52:54:00:11:22:33", PCI: "0000:00:03.0", MTU: 1500, Queues: 1, Driver: "virtio_net"}}
	if diff := cmp.Diff(nics, report.NICs); diff != "" {
		t.Errorf("network interfaces (-want +got):\n%s", diff)
	}
}
