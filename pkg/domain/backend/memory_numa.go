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

// guestCell is one NUMA node of the frontend.
type guestCell struct {
	vcpus      []int // those that the guest starts with, in ascending order
	memoryKiB  uint64
	neighbours []neighbour
}

func (h *host) guestCells() []guestCell {
	if h.Frontend.CPU == nil || h.Frontend.CPU.Numa == nil {
		return nil
	}
	var cells []guestCell
	for _, cell := range h.Frontend.CPU.Numa.Cell {
		cpus, err := cpuset.Parse(cell.CPUs)
		if err != nil {
			h.fail(field.InternalError(h.numaPath(), err))
			return nil
		}
		later := func(id int) bool { return id >= h.startingCPUs() }
		cells = append(cells, guestCell{slices.DeleteFunc(cpus.List(), later), uint64(cell.Memory), h.neighbours(uint(len(cells)))})
	}
	return cells
}

func (h *host) numaPath() *field.Path {
	return h.domain.Child("cpu", "numa", "guestMappingPassthrough")
}

// mirror finds a NUMA node of the host for each of the guest and takes the CPUs there. Among the NUMA nodes that fit it prefers those with
// the guest's devices, then those with the most CPUs, as stage 2 does at the first boot, and the host's order.
func (h *host) mirror(cells []guestCell, rooms []*room) (ids, vcpus []int) {
	roomiest := slices.Clone(rooms)
	slices.SortStableFunc(roomiest, func(a, b *room) int {
		return cmp.Or(cmp.Compare(devicesOf(cells, b.id), devicesOf(cells, a.id)), cmp.Compare(b.cpus()/h.threads(), a.cpus()/h.threads()))
	})
	roomiest = roomiest[:min(len(cells), len(rooms))]
	among := slices.DeleteFunc(slices.Clone(rooms), func(r *room) bool { return !slices.Contains(roomiest, r) })
	found := h.match(cells, among)
	if found == nil {
		found = h.match(cells, rooms)
	}
	if found == nil {
		h.fail(field.Forbidden(h.numaPath(), fmt.Sprintf("the guest's NUMA nodes (%s) do not fit those of %s (%s); run the VMI on a host where they fit",
			wanted(cells), h.node(), offered(rooms))))
		return nil, nil
	}
	vcpus = make([]int, h.startingCPUs())
	for i, r := range found {
		ids = append(ids, r.id)
		n := len(cells[i].vcpus)
		for j, cpu := range r.take((n+h.threads()-1)/h.threads(), h.threads())[:n] {
			vcpus[cells[i].vcpus[j]] = cpu
		}
	}
	return ids, vcpus
}

// match gives each NUMA node a room of its own, by trying; hosts have few.
func (h *host) match(cells []guestCell, rooms []*room) []*room {
	if len(cells) == 0 {
		return []*room{}
	}
	for i, r := range rooms {
		if !h.fits(cells[0], r) {
			continue
		}
		if rest := h.match(cells[1:], slices.Delete(slices.Clone(rooms), i, i+1)); rest != nil {
			return append([]*room{r}, rest...)
		}
	}
	return nil
}

// fits: memory and huge pages are compared with all that the NUMA node has; what others use of them only the start can tell.
func (h *host) fits(cell guestCell, r *room) bool {
	if r.id < 0 || !cell.beside(r.id) || r.cpus() < len(cell.vcpus) || (r.memoryKiB > 0 && r.memoryKiB < cell.memoryKiB) {
		return false
	}
	size := h.pageKiB()
	return size == 0 || len(r.pages) == 0 || r.pages[size]*size >= cell.memoryKiB
}

func wanted(cells []guestCell) string {
	var words []string
	for i, c := range cells {
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
	if len(h.pins.cells) == 0 {
		return h.memoryNear()
	}
	out := &libvirtxml.DomainNUMATune{
		Memory: &libvirtxml.DomainNUMATuneMemory{Mode: "strict", Nodeset: cpuset.New(h.pins.cells...).String()}}
	for i, id := range h.pins.cells {
		out.MemNodes = append(out.MemNodes, libvirtxml.DomainNUMATuneMemNode{CellID: uint(i), Mode: "strict", Nodeset: strconv.Itoa(id)})
	}
	return out
}

// memoryNear is for guests without NUMA nodes. 'preferred' can name one NUMA node, that of most of their CPUs.
func (h *host) memoryNear() *libvirtxml.DomainNUMATune {
	mode, cells, most := h.policy.NUMA.Mode, map[int]int{}, -1
	if mode == "" {
		return nil
	}
	for _, cell := range h.Host.NUMA {
		for _, cpu := range cell.CPUs {
			if slices.Contains(h.pins.vcpus, cpu.ID) {
				cells[cell.ID]++
			}
		}
		if cells[cell.ID] > 0 && (most < 0 || cells[cell.ID] > cells[most]) {
			most = cell.ID
		}
	}
	if most < 0 {
		return nil // the host tells no NUMA nodes
	}
	set := cpuset.New(slices.Collect(maps.Keys(cells))...)
	if mode == "preferred" {
		set = cpuset.New(most)
	}
	return &libvirtxml.DomainNUMATune{Memory: &libvirtxml.DomainNUMATuneMemory{Mode: mode, Nodeset: set.String()}}
}
