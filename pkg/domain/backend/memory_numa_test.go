package backend_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/kilnvm/kiln/pkg/domain/backend"
	"github.com/kilnvm/kiln/pkg/record"
	"github.com/kilnvm/kiln/pkg/render"
	"github.com/kilnvm/kiln/test/backends"
	"libvirt.org/go/libvirtxml"
)

// mirroring is a guest that mirrors the NUMA nodes of its host.
func mirroring(cpu, guest string) string {
	return "{architecture: amd64, domain: {cpu: {dedicatedCpuPlacement: true, numa: {guestMappingPassthrough: {}}, " + cpu +
		"}, memory: {guest: " + guest + ", hugepages: {pageSize: 2Mi}}, devices: {}}}"
}

// mirror is what a guest's NUMA nodes became: <CPUs of the guest>=<NUMA node of the host>, then its pins.
func mirror(dom *libvirtxml.Domain) string {
	out := ""
	for i, node := range dom.CPU.Numa.Cell {
		out += fmt.Sprintf("%s:%dMi=%s ", node.CPUs, node.Memory/1024, dom.NUMATune.MemNodes[i].Nodeset)
	}
	return out + pinned(dom.CPUTune)
}

func TestMirroredNUMANodes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		why, spec string
		host      []backend.NUMANode
		want      string
	}{
		{"a guest that fits one node has one", mirroring("cores: 2, threads: 2", "1Gi"), backends.TwoNodes, "0-3:1024Mi=0 v 0 4 1 5"},
		{"a guest larger than a node has two, half of its memory in each", mirroring("cores: 4, threads: 2", "2Gi"), backends.TwoNodes,
			"0-3:1024Mi=0 4-7:1024Mi=1 v 0 4 1 5 2 6 3 7"},
		{"the roomiest nodes serve, in the host's order", mirroring("cores: 5, threads: 2", "1Gi"), uneven, "0-5:512Mi=1 6-9:512Mi=2 v 1 7 2 8 3 9 4 10 5 11"},
		{"sockets to be added later belong to a node and have no CPU yet", mirroring("sockets: 2, cores: 2, maxSockets: 3", "1Gi"), backends.TwoNodes,
			"0-5:1024Mi=0 v 0 4 1 5"},
		{"the emulator takes what the guest's nodes have left", mirroring("cores: 3, isolateEmulatorThread: true", "1Gi"), backends.TwoNodes,
			"0-2:1024Mi=0 v 0 4 1 e 5"},
		{"the emulator runs in another node where they have nothing left", mirroring("cores: 4, isolateEmulatorThread: true", "1Gi"), backends.TwoNodes,
			"0-3:1024Mi=0 v 0 4 1 5 e 2"},
	} {
		same(t, c.why, c.want, mirror(rendered(t, backends.OnHost(backends.Machine(t, c.spec), c.host))))
	}
}

// TestMemoryOfNUMANodes: memory in huge pages of the node of the host that the CPUs are in, taken at the start.
func TestMemoryOfNUMANodes(t *testing.T) {
	t.Parallel()
	dom := rendered(t, backends.OnHost(backends.Machine(t, mirroring("cores: 4, threads: 2", "2Gi")), backends.TwoNodes))
	same(t, "numatune", `<numatune><memory mode="strict" nodeset="0-1"></memory><memnode cellid="0" mode="strict" nodeset="0"></memnode>`+
		`<memnode cellid="1" mode="strict" nodeset="1"></memnode></numatune>`, partXML(t, libvirtxml.Domain{NUMATune: dom.NUMATune}))
	same(t, "memoryBacking",
		`<memoryBacking><hugepages><page size="2048" unit="KiB" nodeset="0"></page><page size="2048" unit="KiB" nodeset="1"></page></hugepages>`+
			`<allocation mode="immediate"></allocation></memoryBacking>`, partXML(t, libvirtxml.Domain{MemoryBacking: dom.MemoryBacking}))
	same(t, "nodes",
		`<cpu><numa><cell id="0" cpus="0-3" memory="1048576" unit="KiB"><distances><sibling id="0" value="10"></sibling>`+
			`<sibling id="1" value="20"></sibling></distances></cell>`+
			`<cell id="1" cpus="4-7" memory="1048576" unit="KiB"><distances><sibling id="0" value="20"></sibling>`+
			`<sibling id="1" value="10"></sibling></distances></cell></numa></cpu>`,
		partXML(t, libvirtxml.Domain{CPU: &libvirtxml.DomainCPU{Numa: dom.CPU.Numa}}))
}

// booted is the record of a guest's first boot there.
func booted(t *testing.T, spec string, host []backend.NUMANode) *record.Record {
	t.Helper()
	first, errs := render.Domain(backends.OnHost(backends.Machine(t, spec), host))
	if len(errs) > 0 {
		t.Fatal(errs.ToAggregate())
	}
	return &first.Record
}

// TestNUMANodesOnAnotherHost: the nodes of the first boot stay, whatever the next host has; its CPUs and nodes are others.
func TestNUMANodesOnAnotherHost(t *testing.T) {
	t.Parallel()
	spec := mirroring("cores: 4, threads: 2", "2Gi")
	record := booted(t, spec, backends.TwoNodes)
	for _, c := range []struct {
		why  string
		host []backend.NUMANode
		want string
	}{
		{"the same host", backends.TwoNodes, "0-3:1024Mi=0 4-7:1024Mi=1 v 0 4 1 5 2 6 3 7"},
		{"three uneven nodes: those with room", uneven, "0-3:1024Mi=1 4-7:1024Mi=2 v 1 7 2 8 4 10 5 11"},
		{"nodes with room to spare", backends.NUMANodes([][]int{{0, 1}, {2, 3}, {4, 5}}, [][]int{{6, 7}, {8, 9}, {10, 11}}),
			"0-3:1024Mi=0 4-7:1024Mi=1 v 0 1 2 3 6 7 8 9"},
	} {
		m := backends.OnHost(backends.Machine(t, spec), c.host)
		m.Frozen = record
		out, errs := render.Domain(m)
		if len(errs) > 0 {
			t.Errorf("%s: %v", c.why, errs.ToAggregate())
			continue
		}
		same(t, c.why, c.want, mirror(out.Documents.Domain))
		same(t, c.why+": digest", record.Digest, out.Record.Digest)
	}
}

// TestNUMANodesThatDoNotFit: a guest is never given other nodes than those it booted with.
func TestNUMANodesThatDoNotFit(t *testing.T) {
	t.Parallel()
	spec := mirroring("cores: 4, threads: 2", "2Gi")
	record := booted(t, spec, backends.TwoNodes)
	small := backends.NUMANodes([][]int{{0, 4}, {1, 5}}, [][]int{{2, 6}, {3, 7}})
	small[1].MemoryKiB = 1 << 19
	pageless := backends.NUMANodes([][]int{{0, 4}, {1, 5}}, [][]int{{2, 6}, {3, 7}})
	pageless[0].Pages = map[uint64]uint64{4: 1 << 20, 2048: 100}
	for _, c := range []struct {
		why   string
		host  []backend.NUMANode
		words string
	}{
		{"one large node is not two", backends.NUMANodes([][]int{{0, 1}, {2, 3}, {4, 5}, {6, 7}}),
			"the guest's NUMA nodes (0: 4 CPUs, 1048576 KiB; 1: 4 CPUs, 1048576 KiB) do not fit the NUMA nodes of this host (node 0: 8 CPUs, 8388608 KiB)"},
		{"a node with too little memory", small, "node 1: 4 CPUs, 524288 KiB"},
		{"a node with too few huge pages", pageless, "do not fit"},
		{"three small nodes", backends.NUMANodes([][]int{{0, 1}, {2, 3}}, [][]int{{4, 5}}, [][]int{{6, 7}}), "node 2: 2 CPUs"},
		{"a host that tells no nodes", nil, "none is known"},
	} {
		t.Run(c.why, func(t *testing.T) {
			m := backends.OnHost(backends.Machine(t, spec), c.host)
			if c.host == nil {
				m.Bindings.CPUs = []int{0, 1, 2, 3, 4, 5, 6, 7}
			}
			m.Frozen = record
			refusal(t, m, "FieldValueForbidden spec.domain.cpu.numa.guestMappingPassthrough", c.words)
		})
	}
}

// TestMirroredNUMANodesInAPod: QEMU in a pod may not bind memory, so the guest has one NUMA node on the NUMA node of the pod's CPUs. With CPUs of several it is
// refused.
func TestMirroredNUMANodesInAPod(t *testing.T) {
	t.Parallel()
	m := backends.OnHost(backends.Machine(t, mirroring("cores: 2, threads: 2", "1Gi")), backends.TwoNodes)
	m.Bindings.NoMemoryBinding = true
	m.Bindings.CPUs = []int{2, 3, 6, 7} // of the second node
	dom := rendered(t, m)
	if dom.NUMATune != nil {
		t.Errorf("memory is bound: %+v", dom.NUMATune)
	}
	same(t, "nodes", `<cpu><numa><cell id="0" cpus="0-3" memory="1048576" unit="KiB"></cell></numa></cpu>`,
		partXML(t, libvirtxml.Domain{CPU: &libvirtxml.DomainCPU{Numa: dom.CPU.Numa}}))
	same(t, "memoryBacking", `<memoryBacking><hugepages><page size="2048" unit="KiB" nodeset="0"></page></hugepages><allocation mode="immediate"></allocation>`+
		`</memoryBacking>`, partXML(t, libvirtxml.Domain{MemoryBacking: dom.MemoryBacking}))

	m.Bindings.CPUs = []int{0, 1, 2, 3} // two of each node
	const why = "the CPUs of the pod are on 2 NUMA nodes of the host, and a pod may not bind memory to them"
	refusal(t, m, "FieldValueForbidden spec.domain.cpu.numa.guestMappingPassthrough", why)
	if err := backend.CheckUnboundMemory(m.VMI, m.Host, m.Bindings); err == nil || !strings.Contains(err.Detail, why) {
		t.Errorf("before the first boot: %v", err)
	}
	for _, other := range []string{"cpu: {cores: 4, dedicatedCpuPlacement: true}, memory: {guest: 1Gi}", "cpu: {cores: 4}, memory: {guest: 1Gi}"} {
		m.VMI = backends.Machine(t, "{architecture: amd64, domain: {"+other+", devices: {}}}").VMI
		if err := backend.CheckUnboundMemory(m.VMI, m.Host, m.Bindings); err != nil {
			t.Errorf("%s: %v", other, err)
		}
	}
}

// TestHugePagesWithoutNUMANodes says the size once, and asks for no node of the host.
func TestHugePagesWithoutNUMANodes(t *testing.T) {
	t.Parallel()
	spec := "{architecture: amd64, domain: {cpu: {cores: 1}, memory: {guest: 2Gi, hugepages: {pageSize: 1Gi}}, devices: {}}}"
	dom := rendered(t, backends.Machine(t, spec))
	same(t, "memoryBacking", `<memoryBacking><hugepages><page size="1048576" unit="KiB"></page></hugepages></memoryBacking>`,
		partXML(t, libvirtxml.Domain{MemoryBacking: dom.MemoryBacking}))
	if dom.NUMATune != nil {
		t.Error("a guest that mirrors no nodes is tied to one")
	}
}

func TestMemoryBacking(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ why, domain, want string }{
		{"plain memory needs no backing", "cpu: {cores: 1}, memory: {guest: 1Gi}", ""},
		{"virtiofs maps the guest's memory", "memory: {guest: 1Gi}, devices: {filesystems: [{name: fs, virtiofs: {}}]}",
			`<memoryBacking><source type="memfd"></source><access mode="shared"></access></memoryBacking>`},
		{"realtime guests share no pages: a merged one is copied at the next write",
			"cpu: {cores: 2, dedicatedCpuPlacement: true, realtime: {}, model: host-passthrough}, memory: {guest: 1Gi, hugepages: {pageSize: 2Mi}}",
			`<memoryBacking><hugepages><page size="2048" unit="KiB"></page></hugepages><nosharepages></nosharepages></memoryBacking>`},
	} {
		dom := rendered(t, backends.Machine(t, "{architecture: amd64, domain: {"+c.domain+"}}"))
		same(t, c.why, c.want, partXML(t, libvirtxml.Domain{MemoryBacking: dom.MemoryBacking}))
	}
}
