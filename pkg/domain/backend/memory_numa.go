package backend

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/kilnvm/kiln/pkg/internal/vm"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/cpuset"
	v1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"
)

// Elements: numatune. API field: domain.cpu.numa.guestMappingPassthrough; host profile: numa.
// KubeVirt: numaMapping in converter/vcpu/vcpu.go. libvirt: "NUMA Node Tuning".
//
// The guest's NUMA nodes are in the frontend; here each gets a NUMA node of the host that has the CPUs, memory and huge pages. A guest that
// first booted on another host keeps its NUMA nodes: it does not start on a host that they do not fit. KubeVirt chooses both at each start, so
// that another host changes the guest's NUMA tables.

// guestNode is one NUMA node of the frontend.
type guestNode struct {
	vcpus     []int // those that are enabled at boot, in ascending order
	memoryKiB uint64
	devices   []nodeDevice
}

// guestNUMANodes reads the NUMA nodes of the frontend.
func (h *host) guestNUMANodes() []guestNode {
	if h.Frontend.CPU == nil || h.Frontend.CPU.Numa == nil {
		return nil
	}
	var nodes []guestNode
	for _, cell := range h.Frontend.CPU.Numa.Cell {
		cpus, err := cpuset.Parse(cell.CPUs)
		if err != nil {
			h.addError(field.InternalError(numaPath, err))
			return nil
		}
		later := func(id int) bool { return id >= h.startingCPUs() }
		nodes = append(nodes, guestNode{slices.DeleteFunc(cpus.List(), later), uint64(cell.Memory), h.devicesOnNode(uint(len(nodes)))})
	}
	return nodes
}

// numaPath is the path of the field that mirrors NUMA nodes.
var numaPath = domainPath.Child("cpu", "numa", "guestMappingPassthrough")

// mirrorNUMANodes finds a NUMA node of the host for each of the guest's and takes the CPUs there. It returns the IDs in the guest's order, and the CPU of
// each vCPU. Of the nodes that fit it prefers those with the VMI's devices, then those with the most CPUs, as stage 2 does at the first boot
// (chooseNUMANodes in the frontend); their order is the host's.
func (h *host) mirrorNUMANodes(nodes []guestNode, hostNodes []*hostNode) (ids, vcpus []int) {
	largest := slices.Clone(hostNodes)
	slices.SortStableFunc(largest, func(a, b *hostNode) int {
		return cmp.Or(cmp.Compare(deviceRank(nodes, b.id), deviceRank(nodes, a.id)), cmp.Compare(b.freeCPUs()/h.threadsPerCore(), a.freeCPUs()/h.threadsPerCore()))
	})
	largest = largest[:min(len(nodes), len(hostNodes))]
	preferred := slices.DeleteFunc(slices.Clone(hostNodes), func(r *hostNode) bool { return !slices.Contains(largest, r) })
	found := h.matchNUMANodes(nodes, preferred)
	if found == nil {
		found = h.matchNUMANodes(nodes, hostNodes)
	}
	if found == nil {
		h.addError(field.Forbidden(numaPath, fmt.Sprintf("the guest's NUMA nodes (%s) do not fit the NUMA nodes of %s (%s); run the VMI on a host where they fit",
			describeGuestNodes(nodes), h.nodeName(), describeHostNodes(hostNodes))))
		return nil, nil
	}
	vcpus = make([]int, h.startingCPUs())
	for i, r := range found {
		ids = append(ids, r.id)
		n := len(nodes[i].vcpus)
		for j, cpu := range r.takeCores((n+h.threadsPerCore()-1)/h.threadsPerCore(), h.threadsPerCore())[:n] {
			vcpus[nodes[i].vcpus[j]] = cpu
		}
	}
	return ids, vcpus
}

// matchNUMANodes assigns a different node of the host to each node of the guest, by backtracking: hosts have few nodes. It returns nil if no assignment fits.
func (h *host) matchNUMANodes(nodes []guestNode, hostNodes []*hostNode) []*hostNode {
	if len(nodes) == 0 {
		return []*hostNode{}
	}
	for i, r := range hostNodes {
		if !h.fitsMemory(nodes[0], r) {
			continue
		}
		if rest := h.matchNUMANodes(nodes[1:], slices.Delete(slices.Clone(hostNodes), i, i+1)); rest != nil {
			return append([]*hostNode{r}, rest...)
		}
	}
	return nil
}

// fitsMemory reports whether the host's node has enough memory and huge pages in total. How much of it other domains use is known only at the start, where
// libvirt allocates all of it or fails.
func (h *host) fitsMemory(node guestNode, r *hostNode) bool {
	if r.id < 0 || !node.matchesDevices(r.id) || r.freeCPUs() < len(node.vcpus) || (r.memoryKiB > 0 && r.memoryKiB < node.memoryKiB) {
		return false
	}
	size := h.pageKiB()
	return size == 0 || len(r.pages) == 0 || r.pages[size]*size >= node.memoryKiB
}

// CheckUnboundMemory returns an error for a VMI that mirrors NUMA nodes if its CPUs are on several of the host and QEMU may not bind memory to them: the memory
// of a NUMA node of the guest could be on any of the host. On one NUMA node no binding is necessary, because Linux takes memory from the NUMA node of the CPU
// that asks for it. Kubelet's memory manager (memoryManagerPolicy: Static) permits no other.
// A launcher must call it before the first boot, which records the number of NUMA nodes of the guest.
func CheckUnboundMemory(vmi *v1.VirtualMachineInstance, host Capabilities, bindings Bindings) *field.Error {
	if !bindings.NoMemoryBinding || !vm.MirrorsNUMA(vmi.Spec.Domain.CPU) {
		return nil
	}
	nodes := NUMANodes(host, bindings)
	if len(nodes) <= 1 {
		return nil
	}
	return field.Forbidden(numaPath, fmt.Sprintf("the CPUs of the pod are on %d NUMA nodes of the host, and a pod may not bind memory to them: "+
		"run it where the kubelet takes the CPUs of a pod from one NUMA node (topologyManagerPolicy: single-numa-node), or use a smaller instancetype", len(nodes)))
}

// describeGuestNodes lists the guest's NUMA nodes for an error.
func describeGuestNodes(nodes []guestNode) string {
	var words []string
	for i, c := range nodes {
		words = append(words, fmt.Sprintf("%d: %d CPUs, %d KiB%s", i, len(c.vcpus), c.memoryKiB, c.describeDevices()))
	}
	return strings.Join(words, "; ")
}

// numaTune binds the memory of each NUMA node of the guest to its node of the host, in mode strict as in KubeVirt. A VMI with dedicated CPUs and
// without guestMappingPassthrough gets hostProfile.numa.mode on the nodes of its CPUs.
func (h *host) numaTune() *libvirtxml.DomainNUMATune {
	if h.pins == nil || h.Bindings.NoMemoryBinding {
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

// memoryNear binds the memory of a VMI that mirrors no NUMA nodes. In mode preferred libvirt allows one node: that with most of its CPUs.
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
		return nil // the host reports no NUMA nodes
	}
	set := cpuset.New(slices.Collect(maps.Keys(nodes))...)
	if mode == "preferred" {
		set = cpuset.New(most)
	}
	return &libvirtxml.DomainNUMATune{Memory: &libvirtxml.DomainNUMATuneMemory{Mode: mode, Nodeset: set.String()}}
}
