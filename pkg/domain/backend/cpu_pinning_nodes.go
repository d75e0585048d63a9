package backend

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// The free CPUs of the host's NUMA nodes. cpu_pinning.go and memory_numa.go take the CPUs of the VMI from them.

// hostNode is what the VMI may have of one NUMA node of the host.
type hostNode struct {
	id int // -1 on a host that reports no NUMA nodes
	// cores are the free CPUs by core, cores with the most free CPUs first.
	cores     [][]int
	memoryKiB uint64
	pages     map[uint64]uint64 // number of huge pages by their size in KiB
	// spread is hostProfile.cpu.pinStrategy 'Spread': if the guest's cores have one thread, each gets a whole core as long as there are free ones.
	spread bool
	// hasDevice is true if hostProfile.numa.followDevices is set and a host device of the VMI is on this node.
	hasDevice bool
}

// freeCPUs counts the free CPUs of the node.
func (r *hostNode) freeCPUs() int {
	n := 0
	for _, core := range r.cores {
		n += len(core)
	}
	return n
}

// totalCPUs counts the free CPUs of all nodes.
func totalCPUs(hostNodes []*hostNode) int {
	n := 0
	for _, r := range hostNodes {
		n += r.freeCPUs()
	}
	return n
}

// hostNodes returns the host's NUMA nodes in its order, with the CPUs that the VMI may have. A host that reports no NUMA nodes gets one, in which
// each CPU is a core.
func (h *host) hostNodes() []*hostNode {
	free, withDevices := h.freeCPUs(), h.deviceNUMANodes()
	if len(h.Host.NUMA) == 0 {
		r := &hostNode{id: -1}
		for _, id := range free.List() {
			r.cores = append(r.cores, []int{id})
		}
		return []*hostNode{r}
	}
	var hostNodes []*hostNode
	for _, node := range h.Host.NUMA {
		r := &hostNode{id: node.ID, memoryKiB: node.MemoryKiB, pages: node.Pages,
			spread: h.policy.CPU.PinStrategy == "spread", hasDevice: slices.Contains(withDevices, node.ID)}
		index := map[[3]int]int{} // by socket, die and core
		for _, cpu := range node.CPUs {
			if !free.Contains(cpu.ID) {
				continue
			}
			key := [3]int{cpu.Socket, cpu.Die, cpu.Core}
			i, known := index[key]
			if !known {
				i = len(r.cores)
				index[key], r.cores = i, append(r.cores, nil)
			}
			r.cores[i] = append(r.cores[i], cpu.ID)
		}
		slices.SortStableFunc(r.cores, func(a, b []int) int { return cmp.Compare(len(b), len(a)) })
		hostNodes = append(hostNodes, r)
	}
	return hostNodes
}

// takeCores removes CPUs from the node for as many cores of the guest as it can, each with the given threads, and returns them.
func (r *hostNode) takeCores(cores, threads int) []int {
	var out []int
	if r.spread && threads == 1 {
		for taken := true; taken && len(out) < cores; {
			taken = false
			for i := range r.cores {
				if len(r.cores[i]) > 0 && len(out) < cores {
					out, r.cores[i], taken = append(out, r.cores[i][0]), r.cores[i][1:], true
				}
			}
		}
		return out
	}
	for _, step := range []int{threads, 1} { // whole cores, then fragments
		for i := range r.cores {
			for len(r.cores[i]) >= step && len(out)+step <= cores*threads {
				out = append(out, r.cores[i][:step]...)
				r.cores[i] = r.cores[i][step:]
			}
		}
	}
	return out
}

// describeHostNodes lists the free CPUs and the memory of the nodes for an error.
func describeHostNodes(hostNodes []*hostNode) string {
	var words []string
	for _, r := range hostNodes {
		if r.id < 0 {
			return "none is known"
		}
		words = append(words, fmt.Sprintf("node %d: %d CPUs, %d KiB", r.id, r.freeCPUs(), r.memoryKiB))
	}
	return strings.Join(words, "; ")
}
