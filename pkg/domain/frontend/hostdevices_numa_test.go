package frontend_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/pkg/domain/abi"
	"github.com/kilnvm/kiln/pkg/domain/frontend"
	"github.com/kilnvm/kiln/pkg/record"
	v1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"
)

// gpus is a guest that mirrors cells of two hundred CPUs at most and has the devices, each next to a cell of the host.
func gpus(t testing.TB, cpu string, host []frontend.Cell, beside map[string]int, names ...string) frontend.Input {
	t.Helper()
	var list []string
	for _, name := range names {
		list = append(list, fmt.Sprintf("{name: %s, deviceName: example.org/gpu}", name))
	}
	in := with(t, "amd64", "numa", fmt.Sprintf("spec: {domain: {cpu: {%s, dedicatedCpuPlacement: true, numa: {guestMappingPassthrough: {}}}, "+
		"memory: {guest: 1Gi, hugepages: {pageSize: 2Mi}}, devices: {gpus: [%s]}}}", cpu, strings.Join(list, ", ")))
	in.Defaults.HostDevicesByCell, in.Facts.NUMA, in.Facts.HostDeviceCells = true, host, beside
	return in
}

// beside is the cell of the guest that each of its host devices is next to: a=1, or a=- behind a plain port.
func beside(dom *libvirtxml.Domain) string {
	controllers := map[uint]libvirtxml.DomainController{}
	for _, c := range dom.Devices.Controllers {
		if c.Type == "pci" {
			controllers[*c.Index] = c
		}
	}
	var words []string
	for _, h := range dom.Devices.Hostdevs {
		cell := "-"
		port := controllers[*h.Address.PCI.Bus]
		if port.Address != nil && controllers[*port.Address.PCI.Bus].Model == "pcie-expander-bus" {
			cell = "none"
			if node := controllers[*port.Address.PCI.Bus].PCI.Target.NUMANode; node != nil {
				cell = fmt.Sprint(*node)
			}
		}
		words = append(words, abi.Name("hostdev", h.Alias)+"="+cell)
	}
	return strings.Join(words, " ")
}

func TestBesideCells(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		why  string
		in   frontend.Input
		want string
	}{
		{"each next to its cell", gpus(t, "cores: 8", hostCells(4, 4), map[string]int{"a": 1, "b": 0}, "a", "b"), "a=1 b=0 of 2"},
		{"the guest has the device's cell, not the roomiest", gpus(t, "cores: 2", hostCells(8, 4), map[string]int{"a": 1}, "a"), "a=0 of 1"},
		{"the guest has the cells of all devices, though its CPUs fit one",
			gpus(t, "cores: 4", hostCells(8, 8, 8), map[string]int{"a": 2, "b": 0}, "a", "b"), "a=1 b=0 of 2"},
		{"mediated devices of which it is not known are anywhere", func() frontend.Input {
			in := gpus(t, "cores: 4", hostCells(8, 8), map[string]int{"a": 0}, "a", "b")
			in.Facts.HostDevices = map[string]string{"b": "mdev"}
			return in
		}(), "a=0 b=- of 1"},
		{"the gate is off", func() frontend.Input {
			in := gpus(t, "cores: 2", hostCells(8, 4), map[string]int{"a": 1}, "a")
			in.Defaults.HostDevicesByCell = false
			return in
		}(), "a=- of 1"},
		{"all else is on the root bus", func() frontend.Input {
			in := gpus(t, "cores: 2", hostCells(8, 4), map[string]int{"a": 1}, "a")
			in.VMI.Annotations = map[string]string{"kubevirt.io/placePCIDevicesOnRootComplex": "true"}
			return in
		}(), "a=0 of 1"},
	} {
		dom := rendered(t, c.in)
		if got := fmt.Sprintf("%s of %d", beside(dom), len(dom.CPU.Numa.Cell)); got != c.want {
			t.Errorf("%s: '%s', want '%s'", c.why, got, c.want)
		}
	}
}

func TestBesideCellsRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		why  string
		in   frontend.Input
		want []string
	}{
		{"more cells with devices than cores", gpus(t, "cores: 1", hostCells(4, 4), map[string]int{"a": 0, "b": 1}, "a", "b"),
			[]string{"Forbidden spec.domain.devices.gpus[1]"}},
		{"a cell without CPUs for the guest", gpus(t, "cores: 1", hostCells(4), map[string]int{"a": 1}, "a"), []string{"Forbidden spec.domain.devices.gpus[0]"}},
		{"a device of which nothing is known", gpus(t, "cores: 1", hostCells(4, 4), nil, "a"), []string{"Forbidden spec.domain.devices.gpus[0]"}},
	} {
		_, errs := frontend.Render(c.in)
		if diff := cmp.Diff(c.want, kinds(errs)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.why, diff)
		}
	}
}

// TestBesideCellsLater: what the first boot showed stays; only its owner gives a guest other cells, and then no device moves.
func TestBesideCellsLater(t *testing.T) {
	t.Parallel()
	first := rendered(t, gpus(t, "sockets: 4, maxSockets: 8, cores: 1", hostCells(4, 4), map[string]int{"a": 0, "b": 1}, "a", "b"))
	frozen := abi.Freeze(first, defaults.Version)
	off := func(in frontend.Input) frontend.Input { in.Defaults.HostDevicesByCell = false; return in }
	const same = "sockets: 4, maxSockets: 8, cores: 1"
	for _, c := range []struct {
		why  string
		in   frontend.Input
		want string
	}{
		{"the same host", gpus(t, same, hostCells(4, 4), map[string]int{"a": 0, "b": 1}, "a", "b"), "a=0 b=1"},
		{"a host that tells nothing", gpus(t, same, nil, nil, "a", "b"), "a=0 b=1"},
		{"the gate is off", off(gpus(t, same, hostCells(4, 4), nil, "a", "b")), "a=0 b=1"},
		{"a new device joins the one of its cell, whatever the host calls it",
			gpus(t, same, hostCells(4, 4, 4), map[string]int{"a": 2, "b": 1, "c": 2}, "c", "a", "b"), "c=0 a=0 b=1"},
		{"a new device, next to a cell that nothing is next to any more", gpus(t, same, hostCells(4, 4, 4), map[string]int{"b": 1, "c": 2}, "b", "c"), "b=1 c=0"},
		{"a new device with the gate off", off(gpus(t, same, hostCells(4, 4), map[string]int{"c": 0}, "a", "c")), "a=0 c=-"},
		{"other CPUs, other cells", gpus(t, "cores: 3", hostCells(4, 4, 4), map[string]int{"a": 1, "b": 1}, "a", "b"), "a=0 b=0"},
		{"other cells of which a device is not next to any", gpus(t, "cores: 3", hostCells(4, 4, 4), map[string]int{"b": 2}, "a", "b"), "a=none b=0"},
	} {
		c.in.Frozen = &frozen
		again := rendered(t, c.in)
		if got := beside(again); got != c.want {
			t.Errorf("%s: '%s', want '%s'", c.why, got, c.want)
		}
		for _, change := range abi.Compare(first, again) {
			if change.Verdict == record.Breaks {
				t.Errorf("%s: %s", c.why, change.Text)
			}
		}
	}
}

// TestAddressBesideCells: an address of the user's is kept, next to no cell.
func TestAddressBesideCells(t *testing.T) {
	t.Parallel()
	in := gpus(t, "cores: 2", hostCells(4, 4), map[string]int{"a": 0, "nic": 1}, "a")
	in.VMI.Spec.Domain.Devices.Interfaces = []v1.Interface{
		{Name: "nic", PciAddress: "0000:03:00.0", InterfaceBindingMethod: v1.InterfaceBindingMethod{SRIOV: &v1.InterfaceSRIOV{}}}}
	if got, want := beside(rendered(t, in)), "nic=- a=0"; got != want {
		t.Errorf("'%s', want '%s'", got, want)
	}
}
