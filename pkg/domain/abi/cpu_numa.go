package abi

import (
	"strings"

	"github.com/kilnvm/kiln/pkg/record"
	"libvirt.org/go/libvirtxml"
)

// numaNodes returns the NUMA nodes where they mirror a host. The single NUMA node of a guest whose memory can grow follows from its spec, and
// must not pass for a host's when its owner turns mirroring on.
func numaNodes(dom *libvirtxml.Domain) []record.NUMANode {
	if dom.CPU == nil || dom.CPU.Numa == nil || dom.MaximumMemory != nil {
		return nil
	}
	var out []record.NUMANode
	for _, cell := range dom.CPU.Numa.Cell {
		c := record.NUMANode{CPUs: cell.CPUs, MemoryKiB: uint64(cell.Memory)} // frontends count in KiB
		if cell.Distances != nil {
			for _, sibling := range cell.Distances.Siblings {
				c.Distances = append(c.Distances, sibling.Value)
			}
		}
		out = append(out, c)
	}
	return out
}

// numaText is the CPUs and the memory of each NUMA node, for people.
func numaText(d *libvirtxml.Domain) string {
	var lists []string
	for _, cell := range numaOf(d).Cell {
		lists = append(lists, cell.CPUs+" with "+size(uint64(cell.Memory)))
	}
	return strings.Join(lists, " | ")
}

func numaOf(d *libvirtxml.Domain) libvirtxml.DomainNuma {
	if d.CPU == nil || d.CPU.Numa == nil {
		return libvirtxml.DomainNuma{}
	}
	return *d.CPU.Numa
}

// cpuAlone is the CPU without topology and NUMA nodes, which are told apart.
func cpuAlone(d *libvirtxml.Domain) *libvirtxml.DomainCPU {
	if d.CPU == nil {
		return nil
	}
	alone := *d.CPU
	alone.Numa, alone.Topology = nil, nil
	return &alone
}
