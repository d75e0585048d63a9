// Package backends has guests and host profiles for the tests of pkg/domain/backend. Its own tests define what that package renders with a real libvirt.
package backends

import (
	"testing"

	"github.com/kilnvm/kiln/pkg/admit"
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/domain/backend"
	"github.com/kilnvm/kiln/pkg/render"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// Machine returns a guest that stage 1 has made explicit, on the assumed host. spec is the YAML of a VMI's spec.
func Machine(t testing.TB, spec string) render.Machine {
	t.Helper()
	vmi := &v1.VirtualMachineInstance{}
	vmi.Name, vmi.Namespace, vmi.UID = "guest", "default", "5f0c1f6e-6d2a-4c7b-9a43-8f3e1d2c7b6a"
	if err := yaml.UnmarshalStrict([]byte(spec), &vmi.Spec); err != nil {
		t.Fatal(err)
	}
	explicit, verdict := admit.VMI(vmi, admit.Input{Cluster: config.Default()})
	if !verdict.Allowed() {
		t.Fatal(verdict.Errors.ToAggregate())
	}
	arch := explicit.Spec.Architecture
	return render.Machine{VMI: explicit, Defaults: config.Default().Frontend,
		Host: backend.Assumed(arch), Bindings: backend.AssumedBindings(explicit)}
}

// NUMANodes returns NUMA nodes of a host. The arguments are the nodes: for each its cores, for each core its CPUs. A node has 1 GiB for each CPU, half of it in
// pages of 2 MiB.
func NUMANodes(cores ...[][]int) []backend.NUMANode {
	var out []backend.NUMANode
	for id, node := range cores {
		c := backend.NUMANode{ID: id, Distances: map[int]uint{}}
		for to := range cores {
			c.Distances[to] = 20
		}
		c.Distances[id] = 10
		for core, cpus := range node {
			for _, cpu := range cpus {
				c.CPUs = append(c.CPUs, backend.CPU{ID: cpu, Socket: id, Core: core})
				c.MemoryKiB += 1 << 20
			}
		}
		c.Pages = map[uint64]uint64{2048: c.MemoryKiB / 2048 / 2}
		out = append(out, c)
	}
	return out
}

// OnHost gives the guest a host of these nodes and all their CPUs.
func OnHost(m render.Machine, host []backend.NUMANode) render.Machine {
	m.Host.NUMA, m.Bindings.CPUs = host, nil
	for _, node := range host {
		for _, cpu := range node.CPUs {
			m.Bindings.CPUs = append(m.Bindings.CPUs, cpu.ID)
		}
	}
	return m
}

// TwoNodes are the NUMA nodes of a host: two with two cores of two threads each.
var TwoNodes = NUMANodes([][]int{{0, 4}, {1, 5}}, [][]int{{2, 6}, {3, 7}})

// WithNIC returns a guest that has one interface of a model, with a binding, on a host without KVM. The model may be empty.
func WithNIC(t testing.TB, model string, nic backend.NIC) render.Machine {
	t.Helper()
	m := Machine(t, "{architecture: amd64, domain: {cpu: {cores: 1}, memory: {guest: 1Gi}, devices: {interfaces: [{name: default, bridge: {}, model: '"+model+
		"'}]}}, networks: [{name: default, pod: {}}]}")
	m.Host.VirtTypes = []string{"qemu"}
	m.Bindings.NICs["default"] = nic
	return m
}

// NICs are bindings of each kind, by their kinds.
var NICs = func() map[string]backend.NIC {
	all := map[string]backend.NIC{}
	for _, kind := range []string{"user", "passt", "bridge", "tap", "ethernet", "direct", "vhostuser"} {
		all[kind] = backend.NIC{Kind: kind, Device: "eth0", Socket: "/run/v.sock"}
	}
	return all
}()

// LinkMTU is a guest whose interface has a model and a kind of binding to a link with an MTU. Want is the MTU that virtio reports to the guest; 0 for none.
type LinkMTU struct {
	Why, Kind, Model string
	MTU, Want        uint
}

// Guest returns the guest.
func (l LinkMTU) Guest(t testing.TB) render.Machine {
	t.Helper()
	nic := NICs[l.Kind]
	nic.MTU = l.MTU
	return WithNIC(t, l.Model, nic)
}

// MTUs are links of each kind, MTUs at the bounds, and models.
var MTUs = []LinkMTU{
	{"jumbo frames of a tap", "tap", "virtio", 9000, 9000},
	{"an overlay network", "tap", "virtio", 1400, 1400},
	{"a bridge", "bridge", "virtio", 9000, 9000},
	{"an ethernet device", "ethernet", "virtio", 1450, 1450},
	{"vhost-user", "vhostuser", "virtio", 9000, 9000},
	{"a model that cannot report it", "tap", "e1000", 9000, 0},
	{"libvirt has no MTU for a macvtap, which has the MTU of its link", "direct", "virtio", 9000, 0},
	{"QEMU's NAT", "user", "virtio", 9000, 0},
	{"passt, which announces it itself", "passt", "virtio", 9000, 0},
	{"a link that is not known", "tap", "virtio", 0, 0},
	{"the largest", "tap", "virtio", 65535, 65535},
	{"more than virtio can report", "tap", "virtio", 65536, 0},
	{"the least", "tap", "virtio", 68, 68},
	{"less than IPv4 needs", "tap", "virtio", 67, 0},
}
