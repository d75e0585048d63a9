package vm

import v1 "kubevirt.io/api/core/v1"

// Topology is what a guest's counts mean: a count left out beside another is 1. All are 0 when the guest gives none, since
// how many CPUs it has is then not said.
func Topology(cpu *v1.CPU) (sockets, cores, threads uint32) {
	if cpu == nil || cpu.Sockets == 0 && cpu.Cores == 0 && cpu.Threads == 0 {
		return 0, 0, 0
	}
	return max(cpu.Sockets, 1), max(cpu.Cores, 1), max(cpu.Threads, 1)
}

// VCPUs is the product of the counts: 0 when the guest gives none.
func VCPUs(cpu *v1.CPU) int64 {
	sockets, cores, threads := Topology(cpu)
	return int64(sockets) * int64(cores) * int64(threads)
}

// MirrorsNUMA reports whether a guest asks for the NUMA nodes of its host.
func MirrorsNUMA(cpu *v1.CPU) bool {
	return cpu != nil && cpu.NUMA != nil && cpu.NUMA.GuestMappingPassthrough != nil
}

// WithoutIOMMU is the most vCPUs, those to be plugged in counted, that an amd64 guest has without an IOMMU: interrupts have eight
// bits for a CPU, and one number means all.
const WithoutIOMMU = 255

// MaxVCPUs is how many vCPUs a guest of an architecture may be prepared for when it asks for fewer: on amd64 those that bring
// no IOMMU, and on s390x all that QEMU's machine has. False where no such limit is known. No architecture is amd64.
func MaxVCPUs(architecture string) (most uint64, known bool) {
	switch architecture {
	case "", "amd64":
		return WithoutIOMMU, true
	case "s390x":
		return 248, true
	}
	return 0, false
}
