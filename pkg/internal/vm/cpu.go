package vm

import v1 "kubevirt.io/api/core/v1"

// Topology returns sockets, cores and threads of cpu. A count of 0 beside another count is returned as 1, as in KubeVirt. All are 0 if no count is set: the
// number of CPUs is then unknown.
func Topology(cpu *v1.CPU) (sockets, cores, threads uint32) {
	if cpu == nil || cpu.Sockets == 0 && cpu.Cores == 0 && cpu.Threads == 0 {
		return 0, 0, 0
	}
	return max(cpu.Sockets, 1), max(cpu.Cores, 1), max(cpu.Threads, 1)
}

// VCPUs returns the number of vCPUs at boot: the product of the counts of Topology, 0 if no count is set.
func VCPUs(cpu *v1.CPU) int64 {
	sockets, cores, threads := Topology(cpu)
	return int64(sockets) * int64(cores) * int64(threads)
}

// MirrorsNUMA reports whether cpu.numa.guestMappingPassthrough is set: the guest sees the NUMA nodes of its host.
func MirrorsNUMA(cpu *v1.CPU) bool {
	return cpu != nil && cpu.NUMA != nil && cpu.NUMA.GuestMappingPassthrough != nil
}

// WithoutIOMMU is the largest number of vCPUs, including hot-pluggable ones, of a VMI on amd64 without an IOMMU: an interrupt names its CPU by eight bits, and
// one of the numbers means all CPUs.
const WithoutIOMMU = 255

// MaxVCPUs returns the number of vCPUs, including hot-pluggable ones, that a VMI may have by default: WithoutIOMMU on amd64, and QEMU's limit on s390x. It
// reports false if no limit is known. An empty architecture means amd64.
func MaxVCPUs(architecture string) (most uint64, known bool) {
	switch architecture {
	case "", "amd64":
		return WithoutIOMMU, true
	case "s390x":
		return 248, true
	}
	return 0, false
}
