package backend_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/kilnvm/kiln/pkg/domain/backend"
	"github.com/kilnvm/kiln/test/backends"
	"libvirt.org/go/libvirtxml"
)

// own is a guest with CPUs of its own.
func own(cpu, more string) string {
	return "{architecture: amd64, domain: {cpu: {dedicatedCpuPlacement: true, " + cpu + "}, memory: {guest: 1Gi}, devices: {}" + more + "}}"
}

// pinned is cputune in short: v<CPU of each vCPU> e<emulator> i<CPUs of each IO thread>.
func pinned(tune *libvirtxml.DomainCPUTune) string {
	if tune == nil {
		return "none"
	}
	out := "v"
	for _, pin := range tune.VCPUPin {
		out += " " + pin.CPUSet
	}
	if tune.EmulatorPin != nil {
		out += " e " + tune.EmulatorPin.CPUSet
	}
	for i, pin := range tune.IOThreadPin {
		if i == 0 {
			out += " i"
		}
		out += " " + pin.CPUSet
	}
	return out
}

// Hosts that number the second threads of all cores after the first ones, as Intel's and AMD's do.
var (
	oneNode = backends.NUMANodes([][]int{{0, 4}, {1, 5}, {2, 6}, {3, 7}})
	uneven  = backends.NUMANodes([][]int{{0, 6}}, [][]int{{1, 7}, {2, 8}, {3, 9}}, [][]int{{4, 10}, {5, 11}})
)

func TestPinning(t *testing.T) {
	t.Parallel()
	shared := ", ioThreadsPolicy: shared"
	disks := func(names string) string {
		var list []string
		for _, name := range strings.Fields(names) {
			list = append(list, fmt.Sprintf("{name: %s, disk: {bus: virtio}}", name))
		}
		return strings.Join(list, ", ")
	}
	for _, c := range []struct {
		why, spec string
		host      []backend.NUMANode
		free      []int // all if nil
		want      string
	}{
		{"without dedicated CPUs nothing is pinned", "{architecture: amd64, domain: {cpu: {cores: 2}, memory: {guest: 1Gi}, devices: {}}}", oneNode, nil, "none"},
		{"the threads of a core of the guest are threads of one core of the host", own("cores: 2, threads: 2", ""), oneNode, nil, "v 0 4 1 5"},
		{"cores of one thread fill whole cores, which leaves whole ones to others", own("cores: 3", ""), oneNode, nil, "v 0 4 1"},
		{"sockets count like cores", own("sockets: 2, threads: 2", ""), oneNode, nil, "v 0 4 1 5"},
		{"a core with a busy thread comes last", own("cores: 1, threads: 2", ""), oneNode, []int{4, 1, 5}, "v 1 5"},
		{"fragments serve where whole cores are gone", own("cores: 1, threads: 2", ""), oneNode, []int{4, 5}, "v 4 5"},
		{"one node has room for all", own("cores: 2, threads: 2", ""), backends.TwoNodes, []int{0, 1, 2, 3, 5, 6, 7}, "v 2 6 3 7"},
		{"the fullest node that has room, so that the roomy one stays for large guests", own("cores: 2", ""), uneven, nil, "v 0 6"},
		{"the isolated emulator is in the guest's node", own("cores: 3, isolateEmulatorThread: true", ""), uneven, nil, "v 4 10 5 e 11"},
		{"a guest larger than a node takes the roomiest first, and only whole cores across nodes", own("cores: 4, threads: 2", ""), uneven, nil,
			"v 1 7 2 8 3 9 4 10"},
		{"a host that tells no nodes gives CPUs in their order", own("cores: 2, threads: 2", ""), nil, []int{3, 5, 6, 7}, "v 3 5 6 7"},
		{"a shared IO thread runs on the guest's own CPUs", own("cores: 2", shared+", devices: {disks: ["+disks("a b")+"]}"), oneNode, nil, "v 0 4 i 0,4"},
		{"IO threads run beside an isolated emulator", own("cores: 2, isolateEmulatorThread: true", shared+", devices: {disks: ["+disks("a")+"]}"), oneNode,
			nil, "v 0 4 e 1 i 1"},
		{"several IO threads spread evenly", own("cores: 4", ", ioThreadsPolicy: auto, devices: {disks: ["+disks("a b")+"]}"), oneNode, nil, "v 0 4 1 5 i 0,4 1,5"},
		{"more IO threads than CPUs go around", own("cores: 2", ", ioThreadsPolicy: auto, devices: {disks: ["+disks("a b c")+"]}"), oneNode, nil, "v 0 4 i 0 4 0"},
		{"each thread of a supplemental pool has a CPU", own("cores: 2",
			", ioThreadsPolicy: supplementalPool, ioThreads: {supplementalPoolThreadCount: 2}, devices: {disks: ["+disks("a")+"]}"), oneNode, nil, "v 0 4 i 1 5"},
	} {
		spec := strings.Replace(c.spec, "devices: {}, ioThreads", "ioThreads", 1)
		m := backends.OnHost(backends.Machine(t, withVolumes(spec, "a b c")), c.host)
		if c.free != nil {
			m.Bindings.CPUs = c.free
		}
		same(t, c.why, c.want, pinned(rendered(t, m).CPUTune))
	}
}

// withVolumes adds a volume for each disk that the spec has.
func withVolumes(spec, names string) string {
	var list []string
	for _, name := range strings.Fields(names) {
		if strings.Contains(spec, "name: "+name+",") {
			list = append(list, fmt.Sprintf("{name: %s, emptyDisk: {capacity: 1Gi}}", name))
		}
	}
	return strings.TrimSuffix(spec, "}") + ", volumes: [" + strings.Join(list, ", ") + "]}"
}

func TestTooFewCPUs(t *testing.T) {
	t.Parallel()
	m := backends.OnHost(backends.Machine(t, own("cores: 3, isolateEmulatorThread: true", "")), oneNode)
	m.Bindings.CPUs = []int{0, 1, 2}
	refusal(t, m, "FieldValueInvalid spec.domain.cpu.dedicatedCpuPlacement", "the VMI needs 4 dedicated CPUs, and this host has 3 for it")
	m.Bindings.CPUs = []int{20, 21, 22, 23, 24} // a node may offer what its libvirt does not know
	m.Host.NodeName = "rack1"
	refusal(t, m, "FieldValueInvalid spec.domain.cpu.dedicatedCpuPlacement", "host 'rack1' has 0")
}

// Clusters whose nodes give out whole cores only ask for an even number of CPUs.
func TestEmulatorParity(t *testing.T) {
	t.Parallel()
	for cores, want := range map[int]string{2: "v 0 4 e 1,5", 3: "v 0 4 1 e 5"} {
		m := backends.OnHost(backends.Machine(t, own(fmt.Sprintf("cores: %d, isolateEmulatorThread: true", cores), "")), oneNode)
		m.VMI.Annotations = map[string]string{"alpha.kubevirt.io/EmulatorThreadCompleteToEvenParity": ""}
		same(t, fmt.Sprintf("%d CPUs", cores), want, pinned(rendered(t, m).CPUTune))
	}
}

// TestRealtime: the guest's CPUs, or the CPUs of its mask, have a higher priority than everything that is not realtime.
func TestRealtime(t *testing.T) {
	t.Parallel()
	for mask, want := range map[string]string{
		"{}":            `<vcpusched vcpus="0-3" scheduler="fifo" priority="1">`,
		"{mask: '1-2'}": `<vcpusched vcpus="1-2" scheduler="fifo" priority="1">`,
	} {
		m := backends.OnHost(backends.Machine(t, own("cores: 4, realtime: "+mask, "")), oneNode)
		m.Policy = backends.PolicyOf(t, m, backends.HostProfile(t, "p", "{cpu: {vcpuScheduler: {policy: Batch}}}")) // the user's word counts
		if text := partXML(t, libvirtxml.Domain{CPUTune: rendered(t, m).CPUTune}); !strings.Contains(text, want) {
			t.Errorf("realtime %s: no '%s' in %s", mask, want, text)
		}
	}
}

// Sockets to be added later have no CPU yet: the guest starts with what it has.
func TestLaterSocketsAreNotPinned(t *testing.T) {
	t.Parallel()
	m := backends.OnHost(backends.Machine(t, own("sockets: 1, cores: 2, maxSockets: 4", "")), oneNode)
	same(t, "pins", "v 0 4", pinned(rendered(t, m).CPUTune))
}
