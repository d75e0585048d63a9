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
