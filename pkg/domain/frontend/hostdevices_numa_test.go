package frontend_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/pkg/domain/abi"
	"github.com/kilnvm/kiln/pkg/domain/frontend"
	"github.com/kilnvm/kiln/pkg/record"
	"github.com/kilnvm/kiln/test/frontends"
	v1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"
)

// gpus is a guest that mirrors nodes of two hundred CPUs at most and has the devices, each next to a node of the host.
func gpus(t testing.TB, cpu string, host []frontend.NUMANode, nodes map[string]int, names ...string) frontend.Input {
	t.Helper()
	var list []string
	for _, name := range names {
		list = append(list, fmt.Sprintf("{name: %s, deviceName: example.org/gpu}", name))
	}
	in := frontends.With(t, "amd64", "numa", fmt.Sprintf("spec: {domain: {cpu: {%s, dedicatedCpuPlacement: true, numa: {guestMappingPassthrough: {}}}, "+
		"memory: {guest: 1Gi, hugepages: {pageSize: 2Mi}}, devices: {gpus: [%s]}}}", cpu, strings.Join(list, ", ")))
	in.Defaults.HostDevicesByNUMANode, in.Facts.NUMA, in.Facts.HostDeviceNUMANodes = true, host, nodes
	return in
}

// nodesOf is the NUMA node of the guest that each of its host devices is next to: a=1, or a=- behind a plain port.
func nodesOf(dom *libvirtxml.Domain) string {
	controllers := map[uint]libvirtxml.DomainController{}
	for _, c := range dom.Devices.Controllers {
		if c.Type == "pci" {
			controllers[*c.Index] = c
		}
	}
	var words []string
	for _, h := range dom.Devices.Hostdevs {
		node := "-"
		port := controllers[*h.Address.PCI.Bus]
		if port.Address != nil && controllers[*port.Address.PCI.Bus].Model == "pcie-expander-bus" {
			node = "none"
			if id := controllers[*port.Address.PCI.Bus].PCI.Target.NUMANode; id != nil {
				node = fmt.Sprint(*id)
			}
		}
		words = append(words, abi.Name("hostdev", h.Alias)+"="+node)
	}
	return strings.Join(words, " ")
}

func TestHostDevicesOnNUMANodes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		why  string
		in   frontend.Input
		want string
	}{
		{"each next to its node", gpus(t, "cores: 8", hostNUMANodes(4, 4), map[string]int{"a": 1, "b": 0}, "a", "b"), "a=1 b=0 of 2"},
		{"the guest has the device's node, not the roomiest", gpus(t, "cores: 2", hostNUMANodes(8, 4), map[string]int{"a": 1}, "a"), "a=0 of 1"},
		{"the guest has the nodes of all devices, though its CPUs fit one",
			gpus(t, "cores: 4", hostNUMANodes(8, 8, 8), map[string]int{"a": 2, "b": 0}, "a", "b"), "a=1 b=0 of 2"},
		{"mediated devices of which it is not known are anywhere", func() frontend.Input {
			in := gpus(t, "cores: 4", hostNUMANodes(8, 8), map[string]int{"a": 0}, "a", "b")
			in.Facts.HostDevices = map[string]string{"b": "mdev"}
			return in
		}(), "a=0 b=- of 1"},
		{"the gate is off", func() frontend.Input {
			in := gpus(t, "cores: 2", hostNUMANodes(8, 4), map[string]int{"a": 1}, "a")
			in.Defaults.HostDevicesByNUMANode = false
			return in
		}(), "a=- of 1"},
		{"all else is on the root bus", func() frontend.Input {
			in := gpus(t, "cores: 2", hostNUMANodes(8, 4), map[string]int{"a": 1}, "a")
			in.VMI.Annotations = map[string]string{"kubevirt.io/placePCIDevicesOnRootComplex": "true"}
			return in
		}(), "a=0 of 1"},
	} {
		dom := frontends.Rendered(t, c.in)
		if got := fmt.Sprintf("%s of %d", nodesOf(dom), len(dom.CPU.Numa.Cell)); got != c.want {
			t.Errorf("%s: '%s', want '%s'", c.why, got, c.want)
		}
	}
}

func TestHostDevicesOnNUMANodesRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		why  string
		in   frontend.Input
		want []string
	}{
		{"more nodes with devices than cores", gpus(t, "cores: 1", hostNUMANodes(4, 4), map[string]int{"a": 0, "b": 1}, "a", "b"),
			[]string{"Forbidden spec.domain.devices.gpus[1]"}},
		{"a node without CPUs for the guest", gpus(t, "cores: 1", hostNUMANodes(4), map[string]int{"a": 1}, "a"), []string{"Forbidden spec.domain.devices.gpus[0]"}},
		{"a device of which nothing is known", gpus(t, "cores: 1", hostNUMANodes(4, 4), nil, "a"), []string{"Forbidden spec.domain.devices.gpus[0]"}},
	} {
		_, errs := frontend.Render(c.in)
		if diff := cmp.Diff(c.want, kinds(errs)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.why, diff)
		}
	}
}

// TestHostDevicesOnNUMANodesLater: what the first boot showed stays; only its owner gives a guest other nodes, and then no device moves.
func TestHostDevicesOnNUMANodesLater(t *testing.T) {
	t.Parallel()
	first := frontends.Rendered(t, gpus(t, "sockets: 4, maxSockets: 8, cores: 1", hostNUMANodes(4, 4), map[string]int{"a": 0, "b": 1}, "a", "b"))
	frozen := abi.Freeze(first, frontends.Defaults.Version)
	off := func(in frontend.Input) frontend.Input { in.Defaults.HostDevicesByNUMANode = false; return in }
	const same = "sockets: 4, maxSockets: 8, cores: 1"
	for _, c := range []struct {
		why  string
		in   frontend.Input
		want string
	}{
		{"the same host", gpus(t, same, hostNUMANodes(4, 4), map[string]int{"a": 0, "b": 1}, "a", "b"), "a=0 b=1"},
		{"a host that tells nothing", gpus(t, same, nil, nil, "a", "b"), "a=0 b=1"},
		{"the gate is off", off(gpus(t, same, hostNUMANodes(4, 4), nil, "a", "b")), "a=0 b=1"},
		{"a new device joins the one of its node, whatever the host calls it",
			gpus(t, same, hostNUMANodes(4, 4, 4), map[string]int{"a": 2, "b": 1, "c": 2}, "c", "a", "b"), "c=0 a=0 b=1"},
		{"a new device, next to a node that nothing is next to any more", gpus(t, same, hostNUMANodes(4, 4, 4), map[string]int{"b": 1, "c": 2}, "b", "c"), "b=1 c=0"},
		{"a new device with the gate off", off(gpus(t, same, hostNUMANodes(4, 4), map[string]int{"c": 0}, "a", "c")), "a=0 c=-"},
		{"other CPUs, other nodes", gpus(t, "cores: 3", hostNUMANodes(4, 4, 4), map[string]int{"a": 1, "b": 1}, "a", "b"), "a=0 b=0"},
		{"other nodes of which a device is not next to any", gpus(t, "cores: 3", hostNUMANodes(4, 4, 4), map[string]int{"b": 2}, "a", "b"), "a=none b=0"},
	} {
		c.in.Frozen = &frozen
		again := frontends.Rendered(t, c.in)
		if got := nodesOf(again); got != c.want {
			t.Errorf("%s: '%s', want '%s'", c.why, got, c.want)
		}
		for _, change := range abi.Compare(first, again) {
			if change.Verdict == record.Breaks {
				t.Errorf("%s: %s", c.why, change.Text)
			}
		}
	}
}

// TestAddressesOnNUMANodes: an address of the user's is kept, next to no node.
func TestAddressesOnNUMANodes(t *testing.T) {
	t.Parallel()
	in := gpus(t, "cores: 2", hostNUMANodes(4, 4), map[string]int{"a": 0, "nic": 1}, "a")
	in.VMI.Spec.Domain.Devices.Interfaces = []v1.Interface{
		{Name: "nic", PciAddress: "0000:03:00.0", InterfaceBindingMethod: v1.InterfaceBindingMethod{SRIOV: &v1.InterfaceSRIOV{}}}}
	if got, want := nodesOf(frontends.Rendered(t, in)), "nic=- a=0"; got != want {
		t.Errorf("'%s', want '%s'", got, want)
	}
}
