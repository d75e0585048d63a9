package hypervisor

import (
	"github.com/kilnvm/kiln/pkg/domain/backend"
	"libvirt.org/go/libvirtxml"
)

// numaNode reads one NUMA node, which libvirt calls cell. libvirt always prints memory and page sizes in KiB here.
func numaNode(cell libvirtxml.CapsHostNUMACell) backend.NUMANode {
	facts := backend.NUMANode{ID: cell.ID}
	if cell.Memory != nil {
		facts.MemoryKiB = cell.Memory.Size
	}
	for _, page := range cell.PageInfo {
		if facts.Pages == nil {
			facts.Pages = map[uint64]uint64{}
		}
		facts.Pages[uint64(page.Size)] = page.Count
	}
	if cell.Distances != nil {
		facts.Distances = map[int]uint{}
		for _, to := range cell.Distances.Siblings {
			facts.Distances[to.ID] = uint(to.Value)
		}
	}
	if cell.CPUS == nil {
		return facts // memory without CPUs
	}
	for _, cpu := range cell.CPUS.CPUs {
		if cpu.SocketID == nil && cpu.CoreID == nil && cpu.Siblings == "" {
			continue // offline
		}
		facts.CPUs = append(facts.CPUs, backend.CPU{ID: cpu.ID, Socket: valueOrZero(cpu.SocketID), Die: valueOrZero(cpu.DieID), Core: valueOrZero(cpu.CoreID)})
	}
	return facts
}

// valueOrZero returns an ID, or 0 if libvirt leaves it out, as the die of a CPU without dies.
func valueOrZero(id *int) int {
	if id == nil {
		return 0
	}
	return *id
}
