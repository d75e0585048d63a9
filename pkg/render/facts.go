package render

import (
	"errors"
	"fmt"
	"maps"
	"math/bits"
	"slices"
	"strings"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/domain/frontend"
	"github.com/kilnvm/kiln/pkg/record"
	v1 "kubevirt.io/api/core/v1"
)

// The launcher in a guest's pod reports facts, and the controller runs stage 2 with them. A tenant may be the launcher: a false fact may only change
// the hardware of its own guest, and only to something that a host can have.

// Report returns the facts of a host in the form in which a launcher writes them into the status of its GuestPod. ReadFacts accepts them all. A block size that
// no guest can have is left out, as if the host did not report it.
func Report(vmi *v1.VirtualMachineInstance, facts frontend.Facts) *v1alpha1.GuestFacts {
	report := &v1alpha1.GuestFacts{Firmware: facts.Firmware, HostDevices: maps.Clone(facts.HostDevices), CPU: facts.CPU.DeepCopy()}
	if vmi.Spec.Domain.Machine != nil {
		report.Machine = facts.Machines[vmi.Spec.Domain.Machine.Type]
	}
	for name, node := range facts.HostDeviceNUMANodes {
		if report.HostDeviceNUMANodes == nil {
			report.HostDeviceNUMANodes = map[string]int32{}
		}
		report.HostDeviceNUMANodes[name] = int32(node) //nolint:gosec // numbers of NUMA nodes are below 1024
	}
	for name, count := range facts.USBDevices {
		if report.USBDevices == nil {
			report.USBDevices = map[string]int32{}
		}
		report.USBDevices[name] = int32(count) //nolint:gosec // MostBundled at most
	}
	for name, size := range facts.BlockSizes {
		reported, legal := reportedSize(size)
		if !legal {
			continue
		}
		if report.BlockSizes == nil {
			report.BlockSizes = map[string]v1alpha1.ReportedBlockSize{}
		}
		report.BlockSizes[name] = reported
	}
	for _, node := range facts.NUMA {
		report.NUMA = append(report.NUMA, reportedNode(node))
	}
	return report
}

// reportedSize leaves out a discard granularity that no guest can have. It reports false for other sizes that none can have.
func reportedSize(size v1.CustomBlockSize) (out v1alpha1.ReportedBlockSize, legal bool) {
	if size.Logical > mostBlockBytes || size.Physical > mostBlockBytes {
		return out, false
	}
	out = v1alpha1.ReportedBlockSize{Logical: int32(size.Logical), Physical: int32(size.Physical)} //nolint:gosec // compared above
	if _, err := readSize(out); err != nil {
		return out, false
	}
	if discard := size.DiscardGranularity; discard != nil && *discard <= mostDiscard && *discard%size.Logical == 0 {
		out.DiscardGranularity = new(int32(*discard)) //nolint:gosec // compared above
	}
	return out, true
}

//nolint:gosec // numbers of NUMA nodes and CPUs are small, and distances are below 256
func reportedNode(node frontend.NUMANode) v1alpha1.ReportedNUMANode {
	out := v1alpha1.ReportedNUMANode{ID: int32(node.ID), CPUs: int32(node.CPUs)}
	for _, other := range slices.Sorted(maps.Keys(node.Distances)) {
		out.Distances = append(out.Distances, v1alpha1.ReportedNUMADistance{Node: int32(other), Distance: int32(node.Distances[other])})
	}
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
	mostReported   = 128     // NUMA nodes that a report lists, and distances of each: QEMU's limit of a guest's
	kindsOfDevices = "pci mdev usb ap ccw"
)

// MostBundled is the highest number of USB devices that one host device can consist of. Device plugins list them one by one.
const MostBundled = 16

// ReadFacts reads what a launcher has reported, as hostile input. The error names the first fact that no host of the VMI can report.
func ReadFacts(vmi *v1.VirtualMachineInstance, report *v1alpha1.GuestFacts) (facts frontend.Facts, err error) {
	facts = frontend.Facts{Machines: map[string]string{}, HostDevices: map[string]string{}, HostDeviceNUMANodes: map[string]int{},
		USBDevices: map[string]int{}, BlockSizes: map[string]v1.CustomBlockSize{}}
	if report == nil {
		return facts, errors.New("status.facts: the launcher has reported none")
	}
	if machine := vmi.Spec.Domain.Machine; machine != nil && report.Machine != "" {
		if !isVersionOfMachine(machine.Type, report.Machine) {
			return facts, fmt.Errorf("status.facts.machine: '%.64s' is no machine type that '%.64s' stands for", report.Machine, machine.Type)
		}
		facts.Machines[machine.Type] = report.Machine
	}
	if len(report.Firmware) > v1alpha1.MostFirmwareBuilds {
		return facts, fmt.Errorf("status.facts.firmware: %d builds must be at most %d", len(report.Firmware), v1alpha1.MostFirmwareBuilds)
	}
	for i, name := range report.Firmware {
		if err := record.CheckFirmware(name); err != nil {
			return facts, fmt.Errorf("status.facts.firmware[%d]: '%.64q' %w", i, name, err)
		}
	}
	facts.Firmware = report.Firmware
	if err := readDevices(vmi, report, facts); err != nil {
		return facts, err
	}
	named := volumeNames(vmi)
	for _, name := range slices.Sorted(maps.Keys(report.BlockSizes)) {
		if !named[name] {
			return facts, fmt.Errorf("status.facts.blockSizes[%.63s]: the VMI has no such volume", name)
		}
		if facts.BlockSizes[name], err = readSize(report.BlockSizes[name]); err != nil {
			return facts, fmt.Errorf("status.facts.blockSizes[%.63s]: %w", name, err)
		}
	}
	if facts.CPU = report.CPU; facts.CPU != nil {
		if err := record.CheckReportedCPU(facts.CPU); err != nil {
			return facts, fmt.Errorf("status.facts.cpu: %w", err)
		}
	}
	facts.NUMA, err = readNodes(report.NUMA)
	return facts, err
}

// readDevices reads kinds and NUMA nodes of host devices into the maps of facts.
func readDevices(vmi *v1.VirtualMachineInstance, report *v1alpha1.GuestFacts, facts frontend.Facts) error {
	named := hostDeviceNames(vmi)
	for _, name := range slices.Sorted(maps.Keys(report.HostDevices)) {
		kind := report.HostDevices[name]
		if !named[name] {
			return fmt.Errorf("status.facts.hostDevices[%.63s]: the VMI has no such device", name)
		}
		if !slices.Contains(strings.Fields(kindsOfDevices), kind) {
			return fmt.Errorf("status.facts.hostDevices[%.63s]: '%.16s' must be one of %s", name, kind, kindsOfDevices)
		}
		facts.HostDevices[name] = kind
	}
	for _, name := range slices.Sorted(maps.Keys(report.HostDeviceNUMANodes)) {
		node := report.HostDeviceNUMANodes[name]
		if !named[name] {
			return fmt.Errorf("status.facts.hostDeviceNUMANodes[%.63s]: the VMI has no such device", name)
		}
		if node < 0 || node >= mostNUMANodes {
			return fmt.Errorf("status.facts.hostDeviceNUMANodes[%.63s]: %d must be from 0 to %d", name, node, mostNUMANodes-1)
		}
		facts.HostDeviceNUMANodes[name] = int(node)
	}
	for _, name := range slices.Sorted(maps.Keys(report.USBDevices)) {
		count := report.USBDevices[name]
		if facts.HostDevices[name] != "usb" {
			return fmt.Errorf("status.facts.usbDevices[%.63s]: hostDevices has no device of kind usb with this name", name)
		}
		if count < 2 || count > MostBundled {
			return fmt.Errorf("status.facts.usbDevices[%.63s]: %d must be from 2 to %d", name, count, MostBundled)
		}
		facts.USBDevices[name] = int(count)
	}
	return nil
}

// hostDeviceNames are the names of all devices of a VMI that are host devices of its domain.
func hostDeviceNames(vmi *v1.VirtualMachineInstance) map[string]bool {
	named, devices := map[string]bool{}, vmi.Spec.Domain.Devices
	for _, d := range devices.HostDevices {
		named[d.Name] = true
	}
	for _, d := range devices.GPUs {
		named[d.Name] = true
	}
	for _, nic := range devices.Interfaces {
		if nic.SRIOV != nil {
			named[nic.Name] = true
		}
	}
	return named
}

func volumeNames(vmi *v1.VirtualMachineInstance) map[string]bool {
	named := map[string]bool{}
	for i := range vmi.Spec.Volumes {
		named[vmi.Spec.Volumes[i].Name] = true
	}
	return named
}

// isVersionOfMachine reports whether a machine type that QEMU reports can be what a machine type of a spec means: the same, or a version of an alias. A version
// of q35 is pc-q35-10.0; versions of other machines begin with the alias.
func isVersionOfMachine(alias, machine string) bool {
	if len(machine) > longestMachine || strings.ContainsFunc(machine, func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' && c != '.' && c != '_'
	}) {
		return false
	}
	family := alias + "-"
	if alias == "q35" {
		family = "pc-q35-"
	}
	return machine == alias || alias != "" && strings.HasPrefix(machine, family) && machine != family
}

func readSize(size v1alpha1.ReportedBlockSize) (out v1.CustomBlockSize, err error) {
	for _, bytes := range []int32{size.Logical, size.Physical} {
		if bytes < leastBlock || bytes > mostBlockBytes || bits.OnesCount32(uint32(bytes)) != 1 {
			return out, fmt.Errorf("%d bytes must be a power of two from %d to %d", bytes, leastBlock, mostBlockBytes)
		}
	}
	if size.Logical > size.Physical {
		return out, fmt.Errorf("logical: %d bytes must be at most the physical %d", size.Logical, size.Physical)
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
	if len(reported) > mostReported {
		return nil, fmt.Errorf("status.facts.numa: %d nodes must be at most %d", len(reported), mostReported)
	}
	seen := map[int32]bool{}
	for i, node := range reported {
		if node.ID < 0 || node.ID >= mostNUMANodes || seen[node.ID] || node.CPUs < 0 || node.CPUs > mostCPUs {
			return nil, fmt.Errorf("status.facts.numa[%d]: the id must be unique and from 0 to %d, the CPUs from 0 to %d", i, mostNUMANodes-1, mostCPUs)
		}
		seen[node.ID] = true
		read := frontend.NUMANode{ID: int(node.ID), CPUs: uint(node.CPUs)} //nolint:gosec // not negative
		if read.Distances, err = readDistances(node); err != nil {
			return nil, fmt.Errorf("status.facts.numa[%d].distances: %w", i, err)
		}
		nodes = append(nodes, read)
	}
	return nodes, nil
}

// readDistances reads the distances of a node. Hosts report any byte; stage 2 leaves out distances that a guest cannot have.
func readDistances(node v1alpha1.ReportedNUMANode) (read map[int]uint, err error) {
	if len(node.Distances) > mostReported {
		return nil, fmt.Errorf("%d must be at most %d", len(node.Distances), mostReported)
	}
	for _, to := range node.Distances {
		_, twice := read[int(to.Node)]
		switch {
		case to.Node < 0 || to.Node >= mostNUMANodes || twice:
			return nil, fmt.Errorf("node %d must be unique and from 0 to %d", to.Node, mostNUMANodes-1)
		case to.Distance < 0 || to.Distance > mostDistance:
			return nil, fmt.Errorf("distance %d to node %d must be from 0 to %d", to.Distance, to.Node, mostDistance)
		}
		if read == nil {
			read = map[int]uint{}
		}
		read[int(to.Node)] = uint(to.Distance) //nolint:gosec // not negative
	}
	return read, nil
}
