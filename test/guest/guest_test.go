package guest

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func image(t *testing.T) (kernel, initramfs string) {
	t.Helper()
	kernel, initramfs, err := Build(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return kernel, initramfs
}

// disk returns the path of an empty raw disk of so many bytes.
func disk(t *testing.T, size int64) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "disk")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, size); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestBuild states where the files lie: users of Build mount the directory as a kernel boot image.
func TestBuild(t *testing.T) {
	dir := t.TempDir()
	kernel, initramfs, err := Build(dir)
	if err != nil {
		t.Fatal(err)
	}
	if want := filepath.Join(dir, "boot", "vmlinuz"); kernel != want {
		t.Errorf("kernel is '%s', want '%s'", kernel, want)
	}
	if want := filepath.Join(dir, "boot", "initrd"); initramfs != want {
		t.Errorf("initramfs is '%s', want '%s'", initramfs, want)
	}
	archive, err := os.ReadFile(initramfs)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(string(archive), "070701") {
		t.Errorf("initramfs starts with %q, want the newc magic: the kernel takes no other format", archive[:6])
	}
}

// TestBoot boots the guest without libvirt on hardware where every number is chosen, and expects each of
// them back. It is what later tests of rendered domains rely on.
func TestBoot(t *testing.T) {
	t.Parallel()
	kernel, initramfs := image(t)
	if err := AddUdev(initramfs); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), BootTimeout)
	defer cancel()
	report, err := Boot(ctx, kernel, initramfs, chosenHardware(t)...)
	if err != nil {
		t.Fatal(err)
	}
	checkMachine(t, report)
	checkDevices(t, report)
	if keys := unaccounted(report); len(keys) > 0 {
		t.Errorf("facts %v are neither in the text nor left out for a reason", keys)
	}
}

// TestUnpackedKernel: a guest with the unpacked kernel and the argument kiln.places=1 reports the same devices.
func TestUnpackedKernel(t *testing.T) {
	t.Parallel()
	kernel, initramfs := image(t)
	unpacked := filepath.Join(t.TempDir(), "vmlinux")
	if err := errors.Join(AddUdev(initramfs), UnpackKernel(kernel, unpacked)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), BootTimeout)
	defer cancel()
	report, err := Boot(ctx, unpacked, initramfs, append(chosenHardware(t), "-append", Cmdline+" kiln.places=1")...) // QEMU takes the last one
	if err != nil {
		t.Fatal(err)
	}
	checkDevices(t, report)
	if report.Kernel != "" || len(report.DMI) > 0 {
		t.Errorf("with kiln.places=1 the guest reports kernel '%s' and DMI %v", report.Kernel, report.DMI)
	}
}

// chosenHardware are the arguments of QEMU for the hardware that checkMachine and checkDevices expect.
func chosenHardware(t *testing.T) []string {
	t.Helper()
	return []string{
		// An Intel model, since Linux sees threads on TCG's AMD models as cores.
		"-machine", "q35", "-cpu", "Nehalem", "-m", "320", "-smp", "4,sockets=1,cores=2,threads=2",
		"-uuid", "5d307ca9-b3ef-428c-8861-06e72d69f223",
		"-smbios", "type=1,manufacturer=Maker,product=Two Words,serial=S-1",
		"-blockdev", "driver=file,node-name=a,filename=" + disk(t, 1<<20),
		"-device", "virtio-blk-pci,drive=a,serial=VIRTIO-1,addr=0x4,bootindex=1",
		"-blockdev", "driver=file,node-name=b,filename=" + disk(t, 2<<20),
		"-device", "ide-hd,bus=ide.3,drive=b,serial=SATA-3",
		"-device", "virtio-scsi-pci,id=scsi,addr=0x5",
		"-blockdev", "driver=file,node-name=c,filename=" + disk(t, 3<<20),
		"-device", "scsi-hd,bus=scsi.0,drive=c,serial=SCSI-2-1,scsi-id=2,lun=1",
		"-device", "pcie-root-port,id=behind,chassis=1,addr=0x6",
		"-device", "virtio-net-pci,bus=behind,mac=52:54:00:00:00:01",
		"-device", "e1000e,mac=52:54:00:00:00:02,addr=0x8",
	}
}

func checkMachine(t *testing.T, report Report) {
	t.Helper()
	sockets, cores, threads, err := report.Topology()
	if err != nil || len(report.CPUs) != 4 || sockets != 1 || cores != 2 || threads != 2 {
		t.Errorf("%d CPUs as %d:%d:%d (%v), want 4 as 1:2:2", len(report.CPUs), sockets, cores, threads, err)
	}
	if missing := 320<<20 - report.RAMBytes; missing < 0 || missing > 1<<20 {
		t.Errorf("firmware declares %d bytes of RAM, want 320 MiB less what it keeps (below 1 MiB)", report.RAMBytes)
	}
	if report.MemoryKiB <= 0 || report.MemoryKiB*1024 > report.RAMBytes {
		t.Errorf("kernel manages %d KiB of %d bytes of RAM", report.MemoryKiB, report.RAMBytes)
	}
	if report.Cmdline != Cmdline || report.Firmware != "bios" {
		t.Errorf("command line is '%s', firmware is '%s'", report.Cmdline, report.Firmware)
	}
	want := map[string]string{
		"product_uuid":   "5d307ca9-b3ef-428c-8861-06e72d69f223",
		"product_serial": "S-1",
		"sys_vendor":     "Maker",
		"product_name":   "Two Words",
	}
	if order := "\nbootorder=/rom@genroms/linuxboot_dma.bin /pci@i0cf8/scsi@4/disk@0,0\n"; !strings.Contains("\n"+report.Text(), order) {
		t.Errorf("the guest does not report that its firmware boots from these devices:%s", order)
	}
	for name, value := range want {
		if report.DMI[name] != value {
			t.Errorf("DMI '%s' is '%s', want '%s'", name, report.DMI[name], value)
		}
	}
	if want := []Node{{Number: 0, CPUs: "0-3", Bytes: 384 << 20}}; !cmp.Equal(want, report.NUMA) { // in whole blocks
		t.Errorf("NUMA nodes are %v, want %v", report.NUMA, want)
	}
	for _, table := range []string{"FACP", "DSDT", "APIC"} {
		if report.ACPI[table] == 0 {
			t.Errorf("ACPI table '%s' is missing among %v", table, report.ACPI)
		}
	}
}

func checkDevices(t *testing.T, report Report) {
	t.Helper()
	disks := []Disk{
		{Name: "sda", Bytes: 2 << 20, Serial: "SATA-3", Bus: "sata", PCI: "0000:00:1f.2", Port: 3, Link: "pci-0000:00:1f.2-ata-4.0"},
		{Name: "sdb", Bytes: 3 << 20, Serial: "SCSI-2-1", Bus: "scsi", PCI: "0000:00:05.0", Port: -1, Link: "pci-0000:00:05.0-scsi-0:0:2:1"},
		{Name: "vda", Bytes: 1 << 20, Serial: "VIRTIO-1", Bus: "virtio", PCI: "0000:00:04.0", Port: -1, Link: "pci-0000:00:04.0"},
	}
	// sda and sdb depend on which controller answers first; serials tell them apart.
	bySerial := cmpopts.SortSlices(func(a, b Disk) bool { return a.Serial < b.Serial })
	chosen := cmpopts.IgnoreFields(Disk{}, "Name", "Model", "LogicalBlock", "PhysicalBlock", "Queues", "SCSI", "Path")
	if diff := cmp.Diff(disks, report.Disks, chosen, bySerial); diff != "" {
		t.Errorf("disks (-want +got):\n%s", diff)
	}
	for _, d := range report.Disks {
		if d.Serial == "SCSI-2-1" && !strings.HasSuffix(d.SCSI, ":0:2:1") {
			t.Errorf("SCSI disk is at '%s', want target 2 and unit 1", d.SCSI)
		}
	}
	nics := []NIC{
		{MAC: "52:54:00:00:00:01", PCI: "0000:01:00.0", MTU: 1500, Queues: 1, Driver: "virtio_net", Predictable: "enp1s0"},
		{MAC: "52:54:00:00:00:02", PCI: "0000:00:08.0", MTU: 1500, Queues: 1, Driver: "e1000e", Predictable: "enp0s8"},
	}
	byMAC := cmpopts.SortSlices(func(a, b NIC) bool { return a.MAC < b.MAC })
	if diff := cmp.Diff(nics, report.NICs, cmpopts.IgnoreFields(NIC{}, "Name"), byMAC); diff != "" {
		t.Errorf("network interfaces (-want +got):\n%s", diff)
	}
	want := map[string]PCIFunction{
		// A root port made by QEMU, and behind it a virtio 1.0 network card.
		"0000:00:06.0": {Address: "0000:00:06.0", Vendor: "1b36", Device: "000c", Class: "060400", Driver: "pcieport"},
		"0000:01:00.0": {Address: "0000:01:00.0", Parent: "0000:00:06.0", Vendor: "1af4", Device: "1041", Class: "020000", Driver: "virtio-pci"},
	}
	if place := report.Place("0000:01:00.0"); place != "06.0/00.0" {
		t.Errorf("network card is at '%s', want '06.0/00.0'", place)
	}
	found := map[string]PCIFunction{}
	for _, function := range report.PCI {
		if _, listed := want[function.Address]; listed {
			found[function.Address] = function
		}
	}
	if diff := cmp.Diff(want, found, cmpopts.IgnoreFields(PCIFunction{}, "SubsystemVendor", "Subsystem")); diff != "" {
		t.Errorf("PCI functions (-want +got):\n%s", diff)
	}
}

// TestBootFails shows that a QEMU that refuses its arguments is reported with its own words.
func TestBootFails(t *testing.T) {
	t.Parallel()
	kernel, initramfs := image(t)
	ctx, cancel := context.WithTimeout(t.Context(), BootTimeout)
	defer cancel()
	_, err := Boot(ctx, kernel, initramfs, "-machine", "q35", "-device", "no-such-device")
	if !errors.Is(err, ErrNoReport) || !strings.Contains(err.Error(), "no-such-device") {
		t.Errorf("error is '%v', want ErrNoReport that names the device", err)
	}
}
