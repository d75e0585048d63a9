package record

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"k8s.io/utils/cpuset"
)

// Numbers of a record that are facts of a host: NUMA nodes, sizes of blocks, frequencies.

const (
	// maxNUMANodes is QEMU's limit of NUMA nodes.
	maxNUMANodes = 128
	// mostCPUs is more than the CPUs of any machine, including CPUs that can be added.
	mostCPUs = 4096
	// maxNUMANodeMemory is 4 PiB in KiB, so that the sum over all nodes is a number too.
	maxNUMANodeMemory = 1 << 42
	// smallestBlock and largestBlock are QEMU's limits in bytes.
	smallestBlock, largestBlock = 512, 2 << 20
	// largestDiscard is QEMU's limit in bytes: a 32-bit number.
	largestDiscard = 1<<32 - 1
)

func checkNUMANodes(nodes []NUMANode, f *findings) {
	if len(nodes) > maxNUMANodes {
		f.addFinding("numa", len(nodes), fmt.Errorf("must have at most %d NUMA nodes", maxNUMANodes))
		return
	}
	for i, node := range nodes {
		entry := fmt.Sprintf("numa[%d]", i)
		f.addFinding(entry+".cpus", node.CPUs, errorOf(ParseCPUs)(node.CPUs))
		f.addFinding(entry+".memoryKiB", node.MemoryKiB, checkRange(node.MemoryKiB, 0, maxNUMANodeMemory))
		f.addFinding(entry+".distances", node.Distances, checkDistances(i, node.Distances, len(nodes)))
	}
}

// ParseCPUs returns the CPUs of a list in Linux' format, such as '0-3,8'. It returns an error for CPUs of 4096 and above, and counts the CPUs before it expands
// the list: "0-4000000000" is twelve bytes, and gigabytes of numbers.
func ParseCPUs(text string) (cpuset.CPUSet, error) {
	listed := 0
	for part := range strings.SplitSeq(text, ",") {
		low, high, ranged := strings.Cut(part, "-")
		if !ranged {
			high = low
		}
		first, err := strconv.ParseUint(low, 10, 16)
		last, second := strconv.ParseUint(high, 10, 16)
		// The sum bounds the work for ranges that overlap.
		if err != nil || second != nil || first > last || last >= mostCPUs || listed+int(last-first) >= mostCPUs {
			return cpuset.New(), fmt.Errorf("must be a list of CPUs below %d such as '0-3,8'", mostCPUs)
		}
		listed += int(last-first) + 1
	}
	return cpuset.Parse(text)
}

// checkDistances returns an error unless the distances of a NUMA node are ACPI's: 10 to itself, more to others, and 254 at most.
func checkDistances(node int, distances []uint, nodes int) error {
	if len(distances) == 0 {
		return nil
	}
	if len(distances) != nodes {
		return fmt.Errorf("must be %d, one for each NUMA node", nodes)
	}
	for to, distance := range distances {
		if to == node && distance != 10 || to != node && (distance < 11 || distance > 254) {
			return errors.New("must be 10 for the node itself, and from 11 to 254 for others")
		}
	}
	return nil
}

func checkBlockSize(b BlockSize) error {
	for _, size := range []uint{b.Logical, b.Physical} {
		if size < smallestBlock || size > largestBlock || size&(size-1) != 0 {
			return fmt.Errorf("must be powers of 2 from %d to %d", smallestBlock, largestBlock)
		}
	}
	if b.Logical > b.Physical {
		return errors.New("logical must not be greater than physical")
	}
	if b.Discard > largestDiscard || b.Discard%b.Logical != 0 {
		return fmt.Errorf("discard must be a multiple of logical and at most %d", uint64(largestDiscard))
	}
	return nil
}

// checkContextID judges the context ID of a vsock: 0 to 2 are the hypervisor, the local system and the host, and the highest number means any.
func checkContextID(text string) error {
	if text == "" {
		return nil
	}
	if n, err := strconv.ParseUint(text, 10, 32); err != nil || n < 3 || n == 1<<32-1 {
		return fmt.Errorf("must be a number from 3 to %d", uint64(1<<32-2))
	}
	return nil
}

// checkFrequency judges the frequency of a time stamp counter in Hz; 0 means unknown.
func checkFrequency(hz uint64) error {
	if hz == 0 {
		return nil
	}
	return checkRange(hz, 1e6, 1e12)
}
