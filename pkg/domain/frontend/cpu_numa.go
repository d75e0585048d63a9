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

// Owns spec.domain.cpu.numa: the guest has one NUMA node for each of the host's that its CPUs are on.
//
// The host of the first boot decides and the record keeps the result: later hosts must fit it. As in KubeVirt, NUMA nodes are numbered
// from 0 in the host's order and share the memory equally in whole huge pages. Unlike KubeVirt, the guest has as few nodes as can hold
// it, with equal numbers of cores, because an unequal split would depend on which CPUs happened to be free.

// cell is a NUMA node of the guest. Memory is in KiB.
type cell struct {
	cpus      cpuset.CPUSet
	memory    uint
	distances []uint
}

// numa gives a guest whose memory can grow one NUMA node for the added memory, which libvirt would add itself. Shared memory and huge
// pages need none: a filesystem or another backing must not change the guest's NUMA tables.
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

// between returns the CPUs from first to last, last excluded.
func between(first, last uint) cpuset.CPUSet {
	var ids []int
	for id := first; id < last; id++ {
		ids = append(ids, int(id))
	}
	return cpuset.New(ids...)
}

// mirrored returns the recorded NUMA nodes while the guest has the CPUs that they list, else new ones after this host.
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

// mirrors checks that the guest can mirror NUMA nodes, and returns the size of its huge pages in KiB.
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

// recordedCells returns nil unless the record lists exactly the guest's CPUs: the owner has changed their number since.
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

// newCells chooses NUMA nodes of this host. Sockets that can be hot-plugged go to them in turn.
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

// shareMemory gives each NUMA node an equal number of huge pages; remaining pages go to the first nodes. Shares of an earlier boot stay
// while they are whole pages and add up to the guest's memory.
func (g *guest) shareMemory(cells []cell, page uint) bool {
	total, sum, aligned := g.memory().Value, uint(0), true
	for _, c := range cells {
		sum, aligned = sum+c.memory, aligned && c.memory > 0 && c.memory%page == 0
	}
	if sum == total && aligned {
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
