package backend

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/cpuset"
	"libvirt.org/go/libvirtxml"
)

// Elements: numatune. API field: domain.cpu.numa.guestMappingPassthrough; host profile: numa.
//
// The guest's NUMA nodes stand in the frontend; here each gets a NUMA node of the host that has the CPUs, memory and huge pages. A guest
// that first booted on another host keeps its NUMA nodes: where they do not fit, it does not start.

// guestNode is one NUMA node of the frontend.
type guestNode struct {
	vcpus      []int // those that the guest starts with, in ascending order
	memoryKiB  uint64
	neighbours []neighbour
}

func (h *host) guestNUMANodes() []guestNode {
	if h.Frontend.CPU == nil || h.Frontend.CPU.Numa == nil {
		return nil
	}
	var nodes []guestNode
	for _, cell := range h.Frontend.CPU.Numa.Cell {
		cpus, err := cpuset.Parse(cell.CPUs)
		if err != nil {
			h.fail(field.InternalError(h.numaPath(), err))
			return nil
		}
		later := func(id int) bool { return id >= h.startingCPUs() }
		nodes = append(nodes, guestNode{slices.DeleteFunc(cpus.List(), later), uint64(cell.Memory), h.neighbours(uint(len(nodes)))})
	}
	return nodes
}

func (h *host) numaPath() *field.Path {
	return h.domain.Child("cpu", "numa", "guestMappingPassthrough")
}

// mirror finds a NUMA node of the host for each of the guest and takes the CPUs there. Among the NUMA nodes that fit it prefers those with
// the guest's devices, then those with the most CPUs, as stage 2 does at the first boot, and the host's order.
func (h *host) mirror(nodes []guestNode, rooms []*room) (ids, vcpus []int) {
	roomiest := slices.Clone(rooms)
	slices.SortStableFunc(roomiest, func(a, b *room) int {
		return cmp.Or(cmp.Compare(devicesOf(nodes, b.id), devicesOf(nodes, a.id)), cmp.Compare(b.cpus()/h.threads(), a.cpus()/h.threads()))
	})
	roomiest = roomiest[:min(len(nodes), len(rooms))]
	among := slices.DeleteFunc(slices.Clone(rooms), func(r *room) bool { return !slices.Contains(roomiest, r) })
	found := h.match(nodes, among)
	if found == nil {
		found = h.match(nodes, rooms)
	}
	if found == nil {
		h.fail(field.Forbidden(h.numaPath(), fmt.Sprintf("the guest's NUMA nodes (%s) do not fit those of %s (%s); run the VMI on a host where they fit",
			wanted(nodes), h.node(), offered(rooms))))
		return nil, nil
	}
	vcpus = make([]int, h.startingCPUs())
	for i, r := range found {
		ids = append(ids, r.id)
		n := len(nodes[i].vcpus)
		for j, cpu := range r.take((n+h.threads()-1)/h.threads(), h.threads())[:n] {
			vcpus[nodes[i].vcpus[j]] = cpu
		}
	}
	return ids, vcpus
}

// match gives each NUMA node a room of its own, by trying; hosts have few.
func (h *host) match(nodes []guestNode, rooms []*room) []*room {
	if len(nodes) == 0 {
		return []*room{}
	}
	for i, r := range rooms {
		if !h.fits(nodes[0], r) {
			continue
		}
		if rest := h.match(nodes[1:], slices.Delete(slices.Clone(rooms), i, i+1)); rest != nil {
			return append([]*room{r}, rest...)
		}
	}
	return nil
}

// fits: memory and huge pages are compared with all that the NUMA node has; what others use of them only the start can tell.
func (h *host) fits(node guestNode, r *room) bool {
	if r.id < 0 || !node.beside(r.id) || r.cpus() < len(node.vcpus) || (r.memoryKiB > 0 && r.memoryKiB < node.memoryKiB) {
		return false
	}
	size := h.pageKiB()
	return size == 0 || len(r.pages) == 0 || r.pages[size]*size >= node.memoryKiB
}

func wanted(nodes []guestNode) string {
	var words []string
	for i, c := range nodes {
		words = append(words, fmt.Sprintf("%d: %d CPUs, %d KiB%s", i, len(c.vcpus), c.memoryKiB, c.devices()))
	}
	return strings.Join(words, "; ")
}

// numaTune takes the memory of each NUMA node of the guest from its NUMA node of the host and from nowhere else. Other guests with CPUs of
// their own take it from those CPUs' NUMA nodes in the administrator's mode.
func (h *host) numaTune() *libvirtxml.DomainNUMATune {
	if h.pins == nil {
		return nil
	}
	if len(h.pins.nodes) == 0 {
		return h.memoryNear()
	}
	out := &libvirtxml.DomainNUMATune{
		Memory: &libvirtxml.DomainNUMATuneMemory{Mode: "strict", Nodeset: cpuset.New(h.pins.nodes...).String()}}
	for i, id := range h.pins.nodes {
		out.MemNodes = append(out.MemNodes, libvirtxml.DomainNUMATuneMemNode{CellID: uint(i), Mode: "strict", Nodeset: strconv.Itoa(id)})
	}
	return out
}

// memoryNear is for guests without NUMA nodes. 'preferred' can name one NUMA node, that of most of their CPUs.
func (h *host) memoryNear() *libvirtxml.DomainNUMATune {
	mode, nodes, most := h.policy.NUMA.Mode, map[int]int{}, -1
	if mode == "" {
		return nil
	}
	for _, node := range h.Host.NUMA {
		for _, cpu := range node.CPUs {
			if slices.Contains(h.pins.vcpus, cpu.ID) {
				nodes[node.ID]++
			}
		}
		if nodes[node.ID] > 0 && (most < 0 || nodes[node.ID] > nodes[most]) {
			most = node.ID
		}
	}
	if most < 0 {
		return nil // the host tells no NUMA nodes
	}
	set := cpuset.New(slices.Collect(maps.Keys(nodes))...)
	if mode == "preferred" {
		set = cpuset.New(most)
	}
	return &libvirtxml.DomainNUMATune{Memory: &libvirtxml.DomainNUMATuneMemory{Mode: mode, Nodeset: set.String()}}
}
