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
	"libvirt.org/go/libvirtxml"
)

// mirroring is a guest that mirrors the nodes of its host.
func mirroring(t testing.TB, cpu, memory string) frontend.Input {
	return frontends.With(t, "amd64", "numa",
		fmt.Sprintf("spec: {domain: {cpu: {%s, dedicatedCpuPlacement: true, numa: {guestMappingPassthrough: {}}}, memory: {%s}}}", cpu, memory))
}

// seen is the nodes of a guest: <CPUs>:<MiB>, and the distances of the first.
func seen(dom *libvirtxml.Domain) string {
	var list []string
	for _, node := range dom.CPU.Numa.Cell {
		list = append(list, fmt.Sprintf("%s:%d", node.CPUs, node.Memory/1024))
	}
	out := strings.Join(list, " ")
	if first := dom.CPU.Numa.Cell[0]; first.Distances != nil {
		for _, to := range first.Distances.Siblings {
			out += fmt.Sprintf(" %d", to.Value)
		}
	}
	return out
}

// hostNUMANodes have these numbers of CPUs and are 21 apart, as on most machines.
func hostNUMANodes(cpus ...uint) []frontend.NUMANode {
	var out []frontend.NUMANode
	for i, n := range cpus {
		c := frontend.NUMANode{ID: i, CPUs: n, Distances: map[int]uint{}}
		for to := range cpus {
			c.Distances[to] = 21
		}
		c.Distances[i] = 10
		out = append(out, c)
	}
	return out
}

func TestNewNUMANodes(t *testing.T) {
	t.Parallel()
	withoutDistances := hostNUMANodes(4, 4)
	withoutDistances[1].Distances = nil
	odd := hostNUMANodes(4, 4)
	odd[0].ID, odd[1].ID = 2, 8
	odd[0].Distances, odd[1].Distances = map[int]uint{2: 10, 8: 32}, map[int]uint{2: 32, 8: 10}
	for _, c := range []struct {
		why, cpu, memory string
		host             []frontend.NUMANode
		want             string
	}{
		{"as few nodes as hold it", "cores: 4", "guest: 1Gi, hugepages: {pageSize: 2Mi}", hostNUMANodes(4, 4), "0-3:1024"},
		{"the roomiest node, not the first", "cores: 4", "guest: 1Gi, hugepages: {pageSize: 2Mi}", hostNUMANodes(2, 4), "0-3:1024"},
		{"two nodes share cores and memory equally", "cores: 6", "guest: 1Gi, hugepages: {pageSize: 2Mi}", hostNUMANodes(4, 4), "0-2:512 3-5:512 10 21"},
		{"cores are not torn apart", "cores: 3, threads: 2", "guest: 1Gi, hugepages: {pageSize: 2Mi}", hostNUMANodes(4, 5), "0-3:512 4-5:512 10 21"},
		{"a full node leaves the rest to the others", "cores: 10", "guest: 3Gi, hugepages: {pageSize: 2Mi}", hostNUMANodes(2, 4, 4),
			"0-1:1024 2-5:1024 6-9:1024 10 21 21"},
		{"a page more in the first nodes where pages do not divide", "cores: 6", "guest: 3Gi, hugepages: {pageSize: 1Gi}", hostNUMANodes(4, 4),
			"0-2:2048 3-5:1024 10 21"},
		{"sockets to be added go to the nodes in turn", "sockets: 4, maxSockets: 7, cores: 2", "guest: 1Gi, hugepages: {pageSize: 2Mi}", hostNUMANodes(4, 4),
			"0-3,8-9,12-13:512 4-7,10-11:512 10 21"},
		{"nodes are numbered from 0 whatever the host calls them", "cores: 8", "guest: 1Gi, hugepages: {pageSize: 2Mi}", odd, "0-3:512 4-7:512 10 32"},
		{"no distances where the host does not tell them all", "cores: 8", "guest: 1Gi, hugepages: {pageSize: 2Mi}", withoutDistances, "0-3:512 4-7:512"},
	} {
		in := mirroring(t, c.cpu, c.memory)
		in.Facts.NUMA = c.host
		if got := seen(frontends.Rendered(t, in)); got != c.want {
			t.Errorf("%s: '%s', want '%s'", c.why, got, c.want)
		}
	}
}

func TestNUMANodesRefused(t *testing.T) {
	t.Parallel()
	numa := "Forbidden spec.domain.cpu.numa.guestMappingPassthrough"
	for _, c := range []struct {
		why, cpu, memory string
		host             []frontend.NUMANode
		want             []string
	}{
		{"no room", "cores: 9", "guest: 1Gi, hugepages: {pageSize: 2Mi}", hostNUMANodes(4, 4), []string{numa}},
		{"room for threads, not for cores", "cores: 2, threads: 2", "guest: 1Gi, hugepages: {pageSize: 2Mi}", hostNUMANodes(1, 3), []string{numa}},
		{"fewer pages than nodes", "cores: 8", "guest: 1Gi, hugepages: {pageSize: 1Gi}", hostNUMANodes(4, 4), []string{"Invalid value spec.domain.memory.guest"}},
		{"half a page", "cores: 2", "guest: 1535Mi, hugepages: {pageSize: 1Gi}", hostNUMANodes(4), []string{"Invalid value spec.domain.memory.guest"}},
		{"memory that grows", "cores: 2", "guest: 1Gi, maxGuest: 2Gi, hugepages: {pageSize: 2Mi}", hostNUMANodes(4),
			[]string{"Forbidden spec.domain.memory.maxGuest"}},
		{"not a size", "cores: 2", "guest: 1Gi, hugepages: {pageSize: big}", hostNUMANodes(4), []string{"Invalid value spec.domain.memory.hugepages.pageSize"}},
	} {
		in := mirroring(t, c.cpu, c.memory)
		in.Facts.NUMA = c.host
		_, errs := frontend.Render(in)
		if diff := cmp.Diff(c.want, kinds(errs)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.why, diff)
		}
	}
}

// TestNUMANodesAreFrozen: what the first host had stays, as long as the guest has those CPUs.
func TestNUMANodesAreFrozen(t *testing.T) {
	t.Parallel()
	first := mirroring(t, "sockets: 6, maxSockets: 8, cores: 1", "guest: 1Gi, hugepages: {pageSize: 2Mi}")
	first.Facts.NUMA = hostNUMANodes(4, 4)
	was := frontends.Rendered(t, first)
	record := abi.Freeze(was, frontends.Defaults.Version)
	for _, c := range []struct {
		why, cpu, memory string
		host             []frontend.NUMANode
		want             string
	}{
		{"another host", "sockets: 6, maxSockets: 8, cores: 1", "guest: 1Gi, hugepages: {pageSize: 2Mi}", hostNUMANodes(64), "0-2,6:512 3-5,7:512 10 21"},
		{"a host that tells nothing", "sockets: 6, maxSockets: 8, cores: 1", "guest: 1Gi, hugepages: {pageSize: 2Mi}", nil, "0-2,6:512 3-5,7:512 10 21"},
		{"one of the later sockets is there now", "sockets: 7, maxSockets: 8, cores: 1", "guest: 1Gi, hugepages: {pageSize: 2Mi}", hostNUMANodes(64),
			"0-2,6:512 3-5,7:512 10 21"},
		{"more memory is shared anew", "sockets: 6, maxSockets: 8, cores: 1", "guest: 3Gi, hugepages: {pageSize: 2Mi}", hostNUMANodes(64),
			"0-2,6:1536 3-5,7:1536 10 21"},
		{"another number of CPUs is another machine", "sockets: 4, maxSockets: 4, cores: 1", "guest: 1Gi, hugepages: {pageSize: 2Mi}", hostNUMANodes(64), "0-3:1024"},
	} {
		in := mirroring(t, c.cpu, c.memory)
		in.Facts.NUMA, in.Frozen = c.host, &record
		if got := seen(frontends.Rendered(t, in)); got != c.want {
			t.Errorf("%s: '%s', want '%s'", c.why, got, c.want)
		}
	}
	in := mirroring(t, "sockets: 6, maxSockets: 8, cores: 1", "guest: 1Gi, hugepages: {pageSize: 2Mi}")
	in.Frozen = &record
	if changes := abi.Changes(was, frontends.Rendered(t, in)); len(changes) > 0 {
		t.Errorf("a replay on a host without nodes changes %q", changes)
	}
}

// TestRecordsOfAnotherForm: nodes that overlap or miss CPUs were not written by Freeze, and give way to the host's.
func TestRecordsOfAnotherForm(t *testing.T) {
	t.Parallel()
	for why, nodes := range map[string][]record.NUMANode{
		"overlap": {{CPUs: "0-1"}, {CPUs: "1-3"}}, "a gap": {{CPUs: "0"}, {CPUs: "2-3"}}, "no list": {{CPUs: "x"}}, "an empty node": {{CPUs: "0-3"}, {CPUs: ""}},
	} {
		in := mirroring(t, "cores: 4", "guest: 1Gi, hugepages: {pageSize: 2Mi}")
		in.Facts.NUMA, in.Frozen = hostNUMANodes(4), &record.Record{NUMA: nodes}
		if got := seen(frontends.Rendered(t, in)); got != "0-3:1024" {
			t.Errorf("%s: '%s'", why, got)
		}
	}
}
