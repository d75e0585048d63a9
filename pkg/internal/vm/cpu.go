// Package vm answers questions about a guest's spec that several packages ask. It changes nothing and holds no default.
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

// MaxVCPUs is the most vCPUs that libvirt defines a guest of an architecture with: on q35 it wants an IOMMU for more, which no
// field asks for, and QEMU's s390x machine has no more. False where no such limit is known. No architecture is amd64.
func MaxVCPUs(architecture string) (most uint64, known bool) {
	switch architecture {
	case "", "amd64":
		return 255, true
	case "s390x":
		return 248, true
	}
	return 0, false
}
