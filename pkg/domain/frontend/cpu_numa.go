package frontend

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/internal/vm"
	"github.com/kilnvm/kiln/pkg/record"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/cpuset"
	"libvirt.org/go/libvirtxml"
)

// Owns domain.cpu.numa: the guest has a cell for each cell of the host that its CPUs are in.
//
// The host of the first boot decides, and the record keeps it: later hosts must offer what the guest saw. As in KubeVirt,
// cells are numbered from 0 in the host's order and share the memory equally in whole huge pages. Unlike there, the guest has
// as few cells as can hold it, with equal numbers of cores: an unequal split would follow from nothing but which CPUs were free.

// cell of the guest in the making. Memory is in KiB.
type cell struct {
	cpus      cpuset.CPUSet
	memory    uint
	distances []uint
}

// numa gives guests whose memory can grow the one cell that added memory belongs to: libvirt wants it, and would else add
// it. Shared or huge pages need none, so that a filesystem or another backing never changes the guest's NUMA tables.
func (g *guest) numa() *libvirtxml.DomainNuma {
	if vm.MirrorsNUMA(g.spec.Domain.CPU) {
		return g.mirrored()
	}
	if own := g.chosen(); own != nil || !g.memoryGrows() {
		return own
	}
	return numaElement([]cell{{cpus: g.allCPUs(), memory: g.memory().Value}})
}

func (g *guest) allCPUs() cpuset.CPUSet { return between(0, g.maxCPUs()) }

// between is the CPUs from first up to last, which is not among them.
func between(first, last uint) cpuset.CPUSet {
	var ids []int
	for id := first; id < last; id++ {
		ids = append(ids, int(id))
	}
	return cpuset.New(ids...)
}

// mirrored is the cells of the record as long as the guest has the CPUs that they list, else cells of this host.
func (g *guest) mirrored() *libvirtxml.DomainNuma {
	page, ok := g.mirrors()
	if !ok {
		return nil
	}
	cells := g.recordedCells()
	if cells == nil {
		cells = g.newCells()
	}
	if len(cells) == 0 || !g.shareMemory(cells, page) {
		return nil
	}
	return numaElement(cells)
}

// mirrors judges whether the guest can have cells at all, and returns the size of its huge pages in KiB.
func (g *guest) mirrors() (page uint, ok bool) {
	before := len(g.errs)
	memory, at := g.spec.Domain.Memory, g.path.Child("cpu", "numa", "guestMappingPassthrough")
	if g.VMI.Annotations[v1alpha1.AnnotationNUMACells] != "" {
		g.fail(field.Forbidden(cellsPath, "may not be combined with spec.domain.cpu.numa.guestMappingPassthrough; remove one of the two"))
	}
	if g.arch.ccw {
		g.fail(field.Forbidden(at, "architecture 's390x' has no NUMA nodes"))
	}
	if !g.spec.Domain.CPU.DedicatedCPUPlacement {
		g.fail(field.Required(g.path.Child("cpu", "dedicatedCpuPlacement"), "must be 'true' with numa.guestMappingPassthrough"))
	}
	if g.memoryGrows() {
		g.fail(field.Forbidden(g.path.Child("memory", "maxGuest"), "memory of a guest with numa.guestMappingPassthrough cannot grow; remove maxGuest"))
	}
	if memory == nil || memory.Hugepages == nil {
		g.fail(field.Required(g.path.Child("memory", "hugepages"), "must be set with numa.guestMappingPassthrough"))
		return 0, false
	}
	page, err := g.hugePage()
	if err != nil {
		g.fail(err)
		return 0, false
	}
	if total := g.memory().Value; total%page != 0 {
		g.fail(field.Invalid(g.path.Child("memory", "guest"), memory.Guest.String(),
			fmt.Sprintf("must be a multiple of the huge page size '%s'", memory.Hugepages.PageSize)))
	}
	return page, len(g.errs) == before
}

// recordedCells is nil without a record of cells for just these CPUs: then their number is another, by the owner's will.
func (g *guest) recordedCells() []cell {
	if g.Frozen == nil {
		return nil
	}
	var cells []cell
	all := cpuset.New()
	for _, was := range g.Frozen.NUMA {
		cpus, err := record.ParseCPUs(was.CPUs)
		if err != nil || cpus.IsEmpty() || !all.Intersection(cpus).IsEmpty() {
			return nil // not written by Freeze
		}
		all = all.Union(cpus)
		cells = append(cells, cell{cpus, uint(was.MemoryKiB), was.Distances})
	}
	if !all.Equals(g.allCPUs()) {
		return nil
	}
	return cells
}

// newCells chooses cells of this host. Sockets to be added later go to them in turn, so that a guest grows evenly.
func (g *guest) newCells() []cell {
	sockets, most, cores, threads := g.topology()
	chosen := g.choose(sockets*cores, threads)
	if chosen == nil {
		g.fail(field.Forbidden(g.path.Child("cpu", "numa", "guestMappingPassthrough"), fmt.Sprintf(
			"%d cores with %d threads each do not fit the host's NUMA nodes, each core within one node; available: %s", sockets*cores, threads, offered(g.Facts.NUMA))))
		return nil
	}
	cells, next := make([]cell, len(chosen)), uint(0)
	for i, share := range chosen {
		cells[i].cpus = between(next, next+share.cores*threads)
		cells[i].distances = distances(chosen, i)
		next += share.cores * threads
	}
	growEvenly(cells, sockets, most, cores*threads)
	return cells
}

func offered(cells []Cell) string {
	var words []string
	for _, c := range cells {
		words = append(words, fmt.Sprintf("node %d has %d CPUs", c.ID, c.CPUs))
	}
	return cmp.Or(strings.Join(words, ", "), "none is known")
}

// shareMemory gives each cell an equal number of huge pages, and one more to the first ones where they do not divide. Shares of
// an earlier boot stay as long as they are the guest's memory in whole pages.
func (g *guest) shareMemory(cells []cell, page uint) bool {
	total, sum, whole := g.memory().Value, uint(0), true
	for _, c := range cells {
		sum, whole = sum+c.memory, whole && c.memory > 0 && c.memory%page == 0
	}
	if sum == total && whole {
		return true
	}
	n := uint(len(cells))
	pages := total / page
	if pages < n {
		memory := g.spec.Domain.Memory
		g.fail(field.Invalid(g.path.Child("memory", "guest"), memory.Guest.String(),
			fmt.Sprintf("must have one huge page of '%s' for each of %d NUMA nodes at least; it has %d", memory.Hugepages.PageSize, n, pages)))
		return false
	}
	for i := range cells {
		share := pages / n
		if uint(i) < pages%n {
			share++
		}
		cells[i].memory = share * page
	}
	return true
}

func numaElement(cells []cell) *libvirtxml.DomainNuma {
	out := &libvirtxml.DomainNuma{}
	for i, c := range cells {
		id := uint(i)
		element := libvirtxml.DomainCell{ID: &id, CPUs: c.cpus.String(), Memory: c.memory, Unit: "KiB"}
		if len(c.distances) == len(cells) {
			element.Distances = &libvirtxml.DomainCellDistances{}
			for to, value := range c.distances {
				element.Distances.Siblings = append(element.Distances.Siblings, libvirtxml.DomainCellSibling{ID: uint(to), Value: value})
			}
		}
		out.Cell = append(out.Cell, element)
	}
	return out
}
