package domains

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/domain/abi"
	"github.com/kilnvm/kiln/pkg/domain/backend"
	"github.com/kilnvm/kiln/pkg/render"
	"github.com/kilnvm/kiln/test/guest"
	"github.com/kilnvm/kiln/test/libvirt"
	v1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"
)

// beside is a VMI of two NUMA nodes with one GPU next to the first and two next to the second.
func beside(t *testing.T, architecture string) render.Result {
	t.Helper()
	c, errs := config.FromKubeVirt(v1.KubeVirtConfiguration{
		DeveloperConfiguration: &v1.DeveloperConfiguration{FeatureGates: []string{"PCINUMAAwareTopology"}},
		PermittedHostDevices:   &v1.PermittedHostDevices{PciHostDevices: []v1.PciHostDevice{{PCIVendorSelector: "10de:1eb8", ResourceName: "example.org/gpu"}}},
	})
	if len(errs) > 0 {
		t.Fatal(errs.ToAggregate())
	}
	vmi := plain("beside-" + architecture)
	vmi.Spec.Architecture = architecture
	vmi.Spec.Domain.CPU = &v1.CPU{Cores: 2, DedicatedCPUPlacement: true, NUMA: &v1.NUMA{GuestMappingPassthrough: &v1.NUMAGuestMappingPassthrough{}}}
	vmi.Spec.Domain.Memory = &v1.Memory{Guest: bytesOf(512 << 20), Hugepages: &v1.Hugepages{PageSize: "2Mi"}}
	for _, name := range []string{"gpu0", "gpu1", "gpu2"} {
		vmi.Spec.Domain.Devices.GPUs = append(vmi.Spec.Domain.Devices.GPUs, v1.GPU{Name: name, DeviceName: "example.org/gpu"})
	}
	explicit := identified(t, vmi, c)
	m := render.Machine{VMI: explicit, Defaults: c.Frontend, Host: backend.Assumed(architecture), Bindings: backend.AssumedBindings(explicit)}
	m.Bindings.CPUs = []int{0, 1, 288, 289}
	for name, node := range map[string]int{"gpu0": 0, "gpu1": 1, "gpu2": 1} {
		device := m.Bindings.HostDevs[name]
		device.NUMANode = &node
		m.Bindings.HostDevs[name] = device
	}
	rendered, errs := render.Domain(m)
	if len(errs) > 0 {
		t.Fatal(errs.ToAggregate())
	}
	return rendered
}

// TestExpandersAreDefined: libvirt adds and changes nothing of the buses of NUMA nodes.
func TestExpandersAreDefined(t *testing.T) {
	d := libvirt.Start(t)
	for _, architecture := range []string{"amd64", "arm64"} {
		rendered := beside(t, architecture)
		dom := rendered.Documents.Domain
		dom.Type = "qemu" // this machine may have no KVM, and has it for its own architecture only
		if dom.CPU.Mode == "host-passthrough" {
			dom.CPU.Mode, dom.CPU.Migratable = "maximum", ""
		}
		unchanged(t, d, dom)
	}
}

// unchanged defines a domain and compares what the guest sees of it with what libvirt made of it.
func unchanged(t *testing.T, d *libvirt.Daemon, dom *libvirtxml.Domain) {
	t.Helper()
	xml, err := dom.Marshal()
	if err == nil {
		err = libvirt.Validate(xml)
	}
	if err != nil {
		t.Fatalf("%s: %v\n%s", dom.Name, err, xml)
	}
	stored, err := d.Define(xml)
	if err != nil {
		t.Fatalf("libvirt refuses %s: %v\n%s", dom.Name, err, xml)
	}
	if err := d.Undefine(dom.Name); err != nil {
		t.Error(err)
	}
	var back libvirtxml.Domain
	if err := back.Unmarshal(stored); err != nil {
		t.Fatal(err)
	}
	back.OS.Type.Machine = dom.OS.Type.Machine
	if changes := abi.Changes(dom, &back); len(changes) > 0 {
		t.Errorf("libvirt changed what the guest %s sees: %q", dom.Name, changes)
	}
}

// TestExpandersBoot: firmware and kernel of a guest find the devices on the buses of their NUMA nodes, under the numbers that the domain gives
// them.
func TestExpandersBoot(t *testing.T) {
	t.Parallel()
	report := boot(t, beside(t, "amd64").Documents.Domain)
	var places []string
	for _, f := range report.PCI {
		if strings.HasPrefix(f.Parent, "0000:e0:") || strings.HasPrefix(f.Parent, "0000:f0:") {
			places = append(places, f.Parent+"/"+f.Address)
		}
	}
	slices.Sort(places)
	want := []string{"0000:e0:00.0/0000:e1:00.0", "0000:e0:01.0/0000:e2:00.0", "0000:f0:00.0/0000:f1:00.0"}
	if !slices.Equal(places, want) {
		t.Errorf("devices next to NUMA nodes are at %v, want %v", places, want)
	}
}

// boot starts a guest that is like a rendered one in all that has to do with its PCI buses, and returns what it finds. Random number
// generators stand for disks and devices of the host, of which the test has none; nor are there huge pages, or CPUs to pin.
func boot(t *testing.T, rendered *libvirtxml.Domain) guest.Report {
	t.Helper()
	d, dom, dir := libvirt.Start(t), *rendered, t.TempDir()
	kernel, initramfs, err := guest.Build(dir)
	if err != nil {
		t.Fatal(err)
	}
	log := filepath.Join(dir, "serial.log")
	dom.Type, dom.Name, dom.UUID, dom.SysInfo, dom.OS.SMBios = "qemu", "boot", "", nil, nil
	dom.MemoryBacking, dom.NUMATune, dom.CPUTune = nil, nil, nil
	dom.OS.Kernel, dom.OS.Initrd, dom.OS.Cmdline = kernel, initramfs, guest.Cmdline
	dom.CPU = &libvirtxml.DomainCPU{Topology: dom.CPU.Topology, Numa: dom.CPU.Numa}
	dom.Features.KVM = nil
	devices := *dom.Devices
	for _, h := range devices.Hostdevs {
		devices.RNGs = append(devices.RNGs, random("virtio-non-transitional", h.Alias, h.Address))
	}
	for _, disk := range devices.Disks {
		if disk.Address.PCI != nil {
			devices.RNGs = append(devices.RNGs, random(disk.Model, disk.Alias, disk.Address))
		}
	}
	devices.Disks, devices.Hostdevs, devices.Consoles, devices.Channels, devices.Graphics, devices.Interfaces = nil, nil, nil, nil, nil, nil
	devices.Serials[0].Source, devices.Serials[0].Log = &libvirtxml.DomainChardevSource{Null: &libvirtxml.DomainChardevSourceNull{}},
		&libvirtxml.DomainChardevLog{File: log, Append: "on"}
	dom.Devices = &devices
	xml, err := dom.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Define(xml); err != nil {
		t.Fatal(err)
	}
	if err := d.Create(dom.Name); err != nil {
		t.Fatalf("%v\n%s", err, xml)
	}
	ctx, cancel := context.WithTimeout(t.Context(), guest.BootTimeout)
	defer cancel()
	report, err := guest.WaitReport(ctx, log, 1)
	if err != nil {
		text, _ := os.ReadFile(log)
		t.Fatalf("%v\n%s", err, text)
	}
	if err := d.Destroy(dom.Name); err != nil {
		t.Error(err)
	}
	return report
}

func random(model string, alias *libvirtxml.DomainAlias, at *libvirtxml.DomainAddress) libvirtxml.DomainRNG {
	return libvirtxml.DomainRNG{Model: model, Alias: alias, Address: at,
		Backend: &libvirtxml.DomainRNGBackend{Random: &libvirtxml.DomainRNGBackendRandom{Device: "/dev/urandom"}}}
}
