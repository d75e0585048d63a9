package abi

import (
	"strings"

	"github.com/kilnvm/kiln/pkg/record"
	"libvirt.org/go/libvirtxml"
)

// numaNodes returns the NUMA nodes to record. Only a frontend without maxMemory has some, because only such a frontend can mirror a host. The single NUMA node
// of a VMI with memory.maxGuest follows from its spec. If it were recorded, it would be taken for a mirrored node once the owner sets
// numa.guestMappingPassthrough.
func numaNodes(dom *libvirtxml.Domain) []record.NUMANode {
	if dom.CPU == nil || dom.CPU.Numa == nil || dom.MaximumMemory != nil {
		return nil
	}
	var out []record.NUMANode
	for _, cell := range dom.CPU.Numa.Cell {
		c := record.NUMANode{CPUs: cell.CPUs, MemoryKiB: uint64(cell.Memory)} // frontends have KiB
		if cell.Distances != nil {
			for _, sibling := range cell.Distances.Siblings {
				c.Distances = append(c.Distances, sibling.Value)
			}
		}
		out = append(out, c)
	}
	return out
}

// numaText prints the CPUs and the memory of each NUMA node.
func numaText(d *libvirtxml.Domain) string {
	var lists []string
	for _, cell := range numaOf(d).Cell {
		lists = append(lists, "CPUs "+cell.CPUs+" with "+formatMemory(uint64(cell.Memory)))
	}
	return strings.Join(lists, " | ")
}

func numaOf(d *libvirtxml.Domain) libvirtxml.DomainNuma {
	if d.CPU == nil || d.CPU.Numa == nil {
		return libvirtxml.DomainNuma{}
	}
	return *d.CPU.Numa
}

// cpuAlone is the CPU without topology and NUMA nodes, which are parts of their own.
func cpuAlone(d *libvirtxml.Domain) *libvirtxml.DomainCPU {
	if d.CPU == nil {
		return nil
	}
	alone := *d.CPU
	alone.Numa, alone.Topology, alone.MaxPhysAddr = nil, nil, nil
	return &alone
}

// physicalAddresses are a part of the memory: the frontend widens them for a guest that may get more memory than they reach.
func physicalAddresses(d *libvirtxml.Domain) *libvirtxml.DomainCPUMaxPhysAddr {
	if d.CPU == nil {
		return nil
	}
	return d.CPU.MaxPhysAddr
}
