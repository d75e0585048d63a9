package render

import (
	"fmt"
	"maps"
	"math/bits"
	"slices"
	"strings"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/domain/frontend"
	v1 "kubevirt.io/api/core/v1"
)

// The launcher in a guest's pod reports facts, and the controller runs stage 2 with them. A tenant may be the launcher: a false fact may only change
// the hardware of its own guest, and only to something that a host can have.

// Report returns the facts of a host as a launcher writes them into the status of its GuestPod.
func Report(vmi *v1.VirtualMachineInstance, facts frontend.Facts) *v1alpha1.GuestFacts {
	report := &v1alpha1.GuestFacts{HostDevices: facts.HostDevices}
	if vmi.Spec.Domain.Machine != nil {
		report.Machine = facts.Machines[vmi.Spec.Domain.Machine.Type]
	}
	for name, node := range facts.HostDeviceNUMANodes {
		if report.HostDeviceNUMANodes == nil {
			report.HostDeviceNUMANodes = map[string]int32{}
		}
		report.HostDeviceNUMANodes[name] = int32(node) //nolint:gosec // numbers of NUMA nodes are below 1024
	}
	for name, size := range facts.BlockSizes {
		if report.BlockSizes == nil {
			report.BlockSizes = map[string]v1alpha1.ReportedBlockSize{}
		}
		report.BlockSizes[name] = reportedSize(size)
	}
	for _, node := range facts.NUMA {
		report.NUMA = append(report.NUMA, reportedNode(node))
	}
	return report
}

//nolint:gosec // block sizes are at most 2 MiB, and record.Check bounds discard granularities
func reportedSize(size v1.CustomBlockSize) v1alpha1.ReportedBlockSize {
	out := v1alpha1.ReportedBlockSize{Logical: int32(size.Logical), Physical: int32(size.Physical)}
	if size.DiscardGranularity != nil {
		discard := int32(*size.DiscardGranularity)
		out.DiscardGranularity = &discard
	}
	return out
}

//nolint:gosec // numbers of NUMA nodes and CPUs are small, and distances are below 256
func reportedNode(node frontend.NUMANode) v1alpha1.ReportedNUMANode {
	out := v1alpha1.ReportedNUMANode{ID: int32(node.ID), CPUs: int32(node.CPUs)}
	for other, distance := range node.Distances {
		out.Distances = append(out.Distances, v1alpha1.ReportedNUMADistance{Node: int32(other), Distance: int32(distance)})
	}
	slices.SortFunc(out.Distances, func(a, b v1alpha1.ReportedNUMADistance) int { return int(a.Node - b.Node) })
	return out
}

// Bounds of what a host can report.
const (
	mostNUMANodes  = 1024    // CONFIG_NODES_SHIFT of Linux is at most 10
	mostCPUs       = 1 << 16 // NR_CPUS of Linux is at most 8192
	mostDistance   = 255     // a byte of ACPI's SLIT
	mostBlockBytes = 2 << 20 // QEMU's limit of block sizes
	mostDiscard    = 1 << 30 // above the clusters of any storage
	leastBlock     = 1 << 9  // a sector
	longestMachine = 64      // characters of a machine type
	kindsOfDevices = "pci mdev usb ap ccw"
)

// ReadFacts reads what a launcher has reported, as hostile input. The error names the first fact that no host of the VMI can have.
func ReadFacts(vmi *v1.VirtualMachineInstance, report *v1alpha1.GuestFacts) (facts frontend.Facts, err error) {
	facts = frontend.Facts{Machines: map[string]string{}, HostDevices: map[string]string{}, HostDeviceNUMANodes: map[string]int{},
		BlockSizes: map[string]v1.CustomBlockSize{}}
	if machine := vmi.Spec.Domain.Machine; machine != nil && report.Machine != "" {
		if !resolves(machine.Type, report.Machine) {
			return facts, fmt.Errorf("status.facts.machine: '%.64s' is no machine type that '%s' stands for", report.Machine, machine.Type)
		}
		facts.Machines[machine.Type] = report.Machine
	}
	for _, name := range slices.Sorted(maps.Keys(report.HostDevices)) {
		kind := report.HostDevices[name]
		if !slices.Contains(strings.Fields(kindsOfDevices), kind) {
			return facts, fmt.Errorf("status.facts.hostDevices[%.63s]: '%.16s' must be one of %s", name, kind, kindsOfDevices)
		}
		facts.HostDevices[name] = kind
	}
	for _, name := range slices.Sorted(maps.Keys(report.HostDeviceNUMANodes)) {
		node := report.HostDeviceNUMANodes[name]
		if node < 0 || node >= mostNUMANodes {
			return facts, fmt.Errorf("status.facts.hostDeviceNUMANodes[%.63s]: %d must be below %d", name, node, mostNUMANodes)
		}
		facts.HostDeviceNUMANodes[name] = int(node)
	}
	for _, name := range slices.Sorted(maps.Keys(report.BlockSizes)) {
		size := report.BlockSizes[name]
		if facts.BlockSizes[name], err = readSize(size); err != nil {
			return facts, fmt.Errorf("status.facts.blockSizes[%.63s]: %w", name, err)
		}
	}
	facts.NUMA, err = readNodes(report.NUMA)
	return facts, err
}

// resolves reports whether QEMU can have answered that a machine type of a spec is another one: itself, or the version of an alias, as pc-q35-10.0 is
// of q35.
func resolves(alias, machine string) bool {
	if len(machine) > longestMachine || strings.ContainsFunc(machine, func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' && c != '.' && c != '_'
	}) {
		return false
	}
	return machine == alias || strings.HasPrefix(machine, alias+"-") || strings.HasPrefix(machine, "pc-"+alias+"-") ||
		alias == "pc" && strings.HasPrefix(machine, "pc-i440fx-")
}

func readSize(size v1alpha1.ReportedBlockSize) (out v1.CustomBlockSize, err error) {
	for _, bytes := range []int32{size.Logical, size.Physical} {
		if bytes < leastBlock || bytes > mostBlockBytes || bits.OnesCount32(uint32(bytes)) != 1 {
			return out, fmt.Errorf("%d bytes must be a power of two from %d to %d", bytes, leastBlock, mostBlockBytes)
		}
	}
	out = v1.CustomBlockSize{Logical: uint(size.Logical), Physical: uint(size.Physical)} //nolint:gosec // positive
	if discard := size.DiscardGranularity; discard != nil {
		if *discard < 0 || *discard > mostDiscard || *discard%size.Logical != 0 {
			return out, fmt.Errorf("discardGranularity: %d bytes must be a multiple of the logical block size, at most %d", *discard, mostDiscard)
		}
		bytes := uint(*discard)
		out.DiscardGranularity = &bytes
	}
	return out, nil
}

func readNodes(reported []v1alpha1.ReportedNUMANode) (nodes []frontend.NUMANode, err error) {
	seen := map[int32]bool{}
	for i, node := range reported {
		if node.ID < 0 || node.ID >= mostNUMANodes || seen[node.ID] || node.CPUs < 0 || node.CPUs > mostCPUs {
			return nil, fmt.Errorf("status.facts.numa[%d]: the id must be unique and below %d, the CPUs at most %d", i, mostNUMANodes, mostCPUs)
		}
		seen[node.ID] = true
		read := frontend.NUMANode{ID: int(node.ID), CPUs: uint(node.CPUs)} //nolint:gosec // not negative
		for _, to := range node.Distances {
			if to.Node < 0 || to.Node >= mostNUMANodes || to.Distance < 0 || to.Distance > mostDistance {
				return nil, fmt.Errorf("status.facts.numa[%d].distances: node %d must be below %d, distance %d at most %d",
					i, to.Node, mostNUMANodes, to.Distance, mostDistance)
			}
			if read.Distances == nil {
				read.Distances = map[int]uint{}
			}
			read.Distances[int(to.Node)] = uint(to.Distance) //nolint:gosec // not negative
		}
		nodes = append(nodes, read)
	}
	return nodes, nil
}
