package backend

import (
	"reflect"
	"strings"
	"testing"

	v1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"
)

// sampled is a small domain with a part of everything that stage 3 is given.
func sampled() *libvirtxml.Domain {
	return &libvirtxml.Domain{
		UUID:   "5d307ca9-b3ef-428c-8861-06e72d69f223",
		Memory: &libvirtxml.DomainMemory{Value: 1 << 20, Unit: "KiB"},
		VCPU:   &libvirtxml.DomainVCPU{Value: 2},
		OS:     &libvirtxml.DomainOS{Type: &libvirtxml.DomainOSType{Arch: "x86_64", Machine: "pc-q35-7.2"}, Firmware: "efi"},
		CPU:    &libvirtxml.DomainCPU{Mode: "host-model", Numa: &libvirtxml.DomainNuma{Cell: []libvirtxml.DomainCell{{CPUs: "0-1", Memory: 1 << 20, Unit: "KiB"}}}},
		Clock:  &libvirtxml.DomainClock{Offset: "utc"},
		Devices: &libvirtxml.DomainDeviceList{
			Disks: []libvirtxml.DomainDisk{{Device: "disk", Driver: &libvirtxml.DomainDiskDriver{Name: "qemu"},
				Target: &libvirtxml.DomainDiskTarget{Dev: "vda", Bus: "virtio"},
				Alias:  &libvirtxml.DomainAlias{Name: "ua-root"}}},
			Interfaces: []libvirtxml.DomainInterface{{MAC: &libvirtxml.DomainInterfaceMAC{Address: "52:54:00:11:22:33"},
				Alias: &libvirtxml.DomainAlias{Name: "ua-default"}}},
			RNGs: []libvirtxml.DomainRNG{{Model: "virtio", Alias: &libvirtxml.DomainAlias{Name: "ua-rng"}}},
			TPMs: []libvirtxml.DomainTPM{{Model: "tpm-crb", Alias: &libvirtxml.DomainAlias{Name: "ua-tpm"}}},
		},
	}
}

// TestUnaltered: the checker sees each thing that a guest would, and nothing of what is the host's.
func TestUnaltered(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		why   string
		alter func(*libvirtxml.Domain)
		says  string // empty: the guest does not see it
	}{
		{"nothing", func(*libvirtxml.Domain) {}, ""},
		{"UUID", func(d *libvirtxml.Domain) { d.UUID = "" }, "the UUID changes"},
		{"memory", func(d *libvirtxml.Domain) { d.Memory.Value++ }, "the memory changes"},
		{"CPUs", func(d *libvirtxml.Domain) { d.VCPU.Value++ }, "the number of CPUs changes"},
		{"CPU mode", func(d *libvirtxml.Domain) { d.CPU.Mode = "host-passthrough" }, "the CPU changes"},
		{"NUMA nodes", func(d *libvirtxml.Domain) { d.CPU.Numa.Cell[0].CPUs = "0" }, "the NUMA nodes change"},
		{"machine", func(d *libvirtxml.Domain) { d.OS.Type.Machine = "pc-q35-6.2" }, "from 'pc-q35-7.2' to 'pc-q35-6.2'"},
		{"firmware class", func(d *libvirtxml.Domain) { d.OS.Firmware = "" }, "the machine or firmware changes"},
		{"clock", func(d *libvirtxml.Domain) { d.Clock.Offset = "localtime" }, "the clock changes"},
		{"a disk more", func(d *libvirtxml.Domain) { d.Devices.Disks = append(d.Devices.Disks, libvirtxml.DomainDisk{}) }, "is added"},
		{"a disk less", func(d *libvirtxml.Domain) { d.Devices.Disks = nil }, "disk 'root' is removed"},
		{"queues of a disk", func(d *libvirtxml.Domain) { n := uint(2); d.Devices.Disks[0].Driver.Queues = &n }, "disk 'root' changes"},
		{"MAC", func(d *libvirtxml.Domain) { d.Devices.Interfaces[0].MAC.Address = "52:54:00:11:22:34" }, "interface 'default' changes"},
		{"model of the TPM", func(d *libvirtxml.Domain) { d.Devices.TPMs[0].Model = "tpm-tis" }, "changes"},

		{"hypervisor and emulator", func(d *libvirtxml.Domain) { d.Type, d.Devices.Emulator = "kvm", "/usr/bin/qemu" }, ""},
		{"pins", func(d *libvirtxml.Domain) { d.CPUTune = &libvirtxml.DomainCPUTune{} }, ""},
		{"memory backing", func(d *libvirtxml.Domain) { d.MemoryBacking = &libvirtxml.DomainMemoryBacking{} }, ""},
		{"source and cache of a disk", func(d *libvirtxml.Domain) {
			d.Devices.Disks[0].Source = fileSource("/v/a", false)
			d.Devices.Disks[0].Driver.Cache = "none"
		}, ""},
		{"a limit of a disk", func(d *libvirtxml.Domain) {
			d.Devices.Disks[0].IOTune = &libvirtxml.DomainDiskIOTune{TotalIopsSec: 100}
		}, ""},
		{"source of an interface", func(d *libvirtxml.Domain) {
			d.Devices.Interfaces[0].Source = &libvirtxml.DomainInterfaceSource{User: &libvirtxml.DomainInterfaceSourceUser{}}
		}, ""},
		{"bandwidth of an interface", func(d *libvirtxml.Domain) { d.Devices.Interfaces[0].Bandwidth = &libvirtxml.DomainInterfaceBandwidth{} }, ""},
		{"the MTU that the host's link offers", func(d *libvirtxml.Domain) { d.Devices.Interfaces[0].MTU = &libvirtxml.DomainInterfaceMTU{Size: 9000} }, ""},
		{"source of random numbers", func(d *libvirtxml.Domain) { d.Devices.RNGs[0].Backend = &libvirtxml.DomainRNGBackend{} }, ""},
		{"a build of the firmware", func(d *libvirtxml.Domain) {
			d.OS.Firmware, d.OS.Loader = "", &libvirtxml.DomainLoader{Path: "/f", Type: "pflash"}
		}, ""},
	} {
		dom := sampled()
		c.alter(dom)
		err := checkUnaltered(sampled(), dom)
		switch {
		case c.says == "" && err != nil:
			t.Errorf("%s: %v", c.why, err)
		case c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)):
			t.Errorf("%s: error is '%v', want '%s'", c.why, err, c.says)
		}
	}
}

// TestInputIsNotModified: rendering writes into no part of the frontend that it shares.
func TestInputIsNotModified(t *testing.T) {
	t.Parallel()
	in := sharedInput()
	before := sharedInput().Frontend
	if _, errs := Render(in); len(errs) > 0 {
		t.Fatal(errs.ToAggregate())
	}
	if !reflect.DeepEqual(before, in.Frontend) {
		t.Error("stage 3 wrote into the frontend")
	}
}

// sharedInput is a guest with a disk and an interface on the assumed host.
func sharedInput() Input {
	vmi := &v1.VirtualMachineInstance{}
	vmi.Spec.Architecture = "amd64"
	vmi.Spec.Domain.Devices.Disks = []v1.Disk{{Name: "root"}}
	vmi.Spec.Domain.Devices.Interfaces = []v1.Interface{{Name: "default"}}
	vmi.Spec.Domain.Devices.Interfaces[0].Masquerade = &v1.InterfaceMasquerade{}
	vmi.Spec.Volumes = []v1.Volume{{Name: "root", VolumeSource: v1.VolumeSource{EmptyDisk: &v1.EmptyDiskSource{}}}}
	vmi.Spec.Domain.Firmware = &v1.Firmware{Bootloader: &v1.Bootloader{EFI: &v1.EFI{SecureBoot: new(false)}}}
	return Input{Frontend: sampled(), VMI: vmi, Host: Assumed("amd64"), Bindings: AssumedBindings(vmi)}
}
