package frontend

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/internal/vm"
	"github.com/kilnvm/kiln/pkg/record"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/cpuset"
	"libvirt.org/go/libvirtxml"
)

// Owns spec.domain.cpu.numa: the guest has one NUMA node for each of the host's that its CPUs are on.
// KubeVirt: numaMapping in converter/vcpu/vcpu.go. libvirt: "NUMA topology" below "CPU model and topology".
//
// The host of the first boot decides and the record keeps the result: later hosts must fit it. As in KubeVirt, NUMA nodes are numbered
// from 0 in the host's order and share the memory equally in whole huge pages. Unlike KubeVirt, the guest has as few nodes as can hold
// it, with equal numbers of cores, because an unequal split would depend on which CPUs happened to be free.

// numaNode is a NUMA node of the guest.
type numaNode struct {
	cpus      cpuset.CPUSet // in the guest's numbering, hot-pluggable ones included
	memory    uint          // KiB
	distances []uint        // to each node of the guest, in their order; empty if the host reports none
}

// renderNUMA gives a guest with memory.maxGuest one NUMA node, because hot-plugged memory must belong to a node: libvirt would add it itself. Shared
// memory and huge pages need none. KubeVirt adds a node for them too (converter/compute/cpu.go), so that a filesystem or another memory backing
// changes the guest's NUMA tables.
func (g *guest) renderNUMA() *libvirtxml.DomainNuma {
	if vm.MirrorsNUMA(g.spec.Domain.CPU) {
		return g.mirroredNUMA()
	}
	if own := g.ownNUMANodes(); own != nil || !g.memoryGrows() {
		return own
	}
	only := libvirtxml.DomainCell{ID: new(uint), CPUs: "0", Memory: g.renderMemory().Value, Unit: "KiB"}
	if n := g.maxCPUs(); n > 1 {
		only.CPUs = "0-" + strconv.FormatUint(uint64(n-1), 10)
	}
	return &libvirtxml.DomainNuma{Cell: []libvirtxml.DomainCell{only}}
}

func (g *guest) allCPUs() cpuset.CPUSet { return cpuRange(0, g.maxCPUs()) }

// cpuRange returns the CPUs from first to last, excluding last.
func cpuRange(first, last uint) cpuset.CPUSet {
	var ids []int
	for id := first; id < last; id++ {
		ids = append(ids, int(id))
	}
	return cpuset.New(ids...)
}

// mirroredNUMA returns the recorded NUMA nodes if they list exactly the guest's CPUs, else new ones that mirror this host.
func (g *guest) mirroredNUMA() *libvirtxml.DomainNuma {
	page, ok := g.checkMirroring()
	if !ok {
		return nil
	}
	nodes := g.recordedNUMANodes()
	if nodes == nil {
		nodes = g.newNUMANodes()
	}
	if len(nodes) == 0 || !g.shareMemory(nodes, page) {
		return nil
	}
	return numaElement(nodes)
}

// checkMirroring checks that the guest can mirror NUMA nodes, and returns the size of its huge pages in KiB.
func (g *guest) checkMirroring() (page uint, ok bool) {
	before := len(g.errs)
	memory, at := g.spec.Domain.Memory, g.path.Child("cpu", "numa", "guestMappingPassthrough")
	if g.VMI.Annotations[v1alpha1.AnnotationNUMACells] != "" {
		g.addError(field.Forbidden(numaNodesPath, "may not be combined with spec.domain.cpu.numa.guestMappingPassthrough; remove one of the two"))
	}
	if g.arch.ccw {
		g.addError(field.Forbidden(at, "architecture 's390x' has no NUMA nodes"))
	}
	if !g.spec.Domain.CPU.DedicatedCPUPlacement {
		g.addError(field.Required(g.path.Child("cpu", "dedicatedCpuPlacement"), "must be 'true' with numa.guestMappingPassthrough"))
	}
	if g.memoryGrows() {
		g.addError(field.Forbidden(g.path.Child("memory", "maxGuest"), "memory of a guest with numa.guestMappingPassthrough cannot grow; remove maxGuest"))
	}
	if memory == nil || memory.Hugepages == nil {
		g.addError(field.Required(g.path.Child("memory", "hugepages"), "must be set with numa.guestMappingPassthrough"))
		return 0, false
	}
	page, err := g.hugePage()
	if err != nil {
		g.addError(err)
		return 0, false
	}
	if total := g.renderMemory().Value; total%page != 0 {
		g.addError(field.Invalid(g.path.Child("memory", "guest"), memory.Guest.String(),
			fmt.Sprintf("must be a multiple of the huge page size '%s'", memory.Hugepages.PageSize)))
	}
	return page, len(g.errs) == before
}

// recordedNUMANodes returns nil unless the nodes of the record have exactly the guest's CPUs. They do not after the owner changed the number of
// CPUs.
func (g *guest) recordedNUMANodes() []numaNode {
	if g.Frozen == nil {
		return nil
	}
	var nodes []numaNode
	all := cpuset.New()
	for _, recorded := range g.Frozen.NUMA {
		cpus, err := record.ParseCPUs(recorded.CPUs)
		if err != nil || cpus.IsEmpty() || !all.Intersection(cpus).IsEmpty() {
			return nil // abi.Freeze writes no such record; somebody else did
		}
		all = all.Union(cpus)
		nodes = append(nodes, numaNode{cpus, uint(recorded.MemoryKiB), recorded.Distances})
	}
	if !all.Equals(g.allCPUs()) {
		return nil
	}
	return nodes
}

// newNUMANodes chooses NUMA nodes of this host. Sockets that can be hot-plugged go to them in turn.
func (g *guest) newNUMANodes() []numaNode {
	sockets, maxSockets, cores, threads := g.cpuTopology()
	chosen := g.chooseNUMANodes(sockets*cores, threads)
	if chosen == nil {
		g.addError(field.Forbidden(g.path.Child("cpu", "numa", "guestMappingPassthrough"), fmt.Sprintf(
			"%d cores with %d threads each do not fit the host's NUMA nodes, each core within one node; available: %s",
			sockets*cores, threads, describeNUMANodes(g.Facts.NUMA))))
		return nil
	}
	nodes, next := make([]numaNode, len(chosen)), uint(0)
	for i, share := range chosen {
		nodes[i].cpus = cpuRange(next, next+share.cores*threads)
		nodes[i].distances = distancesOf(chosen, i)
		next += share.cores * threads
	}
	spreadHotplugSockets(nodes, sockets, maxSockets, cores*threads)
	return nodes
}

// describeNUMANodes lists the NUMA nodes of a host for an error.
func describeNUMANodes(nodes []NUMANode) string {
	var words []string
	for _, c := range nodes {
		words = append(words, fmt.Sprintf("node %d has %d CPUs", c.ID, c.CPUs))
	}
	return cmp.Or(strings.Join(words, ", "), "none is known")
}

// shareMemory gives each NUMA node an equal number of huge pages; remaining pages go to the first nodes, as in KubeVirt. Recorded shares stay
// if they are whole pages and add up to the guest's memory. page is in KiB.
func (g *guest) shareMemory(nodes []numaNode, page uint) bool {
	total, sum, aligned := g.renderMemory().Value, uint(0), true
	for _, c := range nodes {
		sum, aligned = sum+c.memory, aligned && c.memory > 0 && c.memory%page == 0
	}
	if sum == total && aligned {
		return true
	}
	n := uint(len(nodes))
	pages := total / page
	if pages < n {
		memory := g.spec.Domain.Memory
		g.addError(field.Invalid(g.path.Child("memory", "guest"), memory.Guest.String(),
			fmt.Sprintf("must have one huge page of '%s' for each of %d NUMA nodes at least; it has %d", memory.Hugepages.PageSize, n, pages)))
		return false
	}
	for i := range nodes {
		share := pages / n
		if uint(i) < pages%n {
			share++
		}
		nodes[i].memory = share * page
	}
	return true
}

// numaElement numbers the nodes from 0 in their order.
func numaElement(nodes []numaNode) *libvirtxml.DomainNuma {
	out := &libvirtxml.DomainNuma{}
	for i, c := range nodes {
		id := uint(i)
		element := libvirtxml.DomainCell{ID: &id, CPUs: c.cpus.String(), Memory: c.memory, Unit: "KiB"}
		if len(c.distances) == len(nodes) {
			element.Distances = &libvirtxml.DomainCellDistances{}
			for to, value := range c.distances {
				element.Distances.Siblings = append(element.Distances.Siblings, libvirtxml.DomainCellSibling{ID: uint(to), Value: value})
			}
		}
		out.Cell = append(out.Cell, element)
	}
	return out
}
