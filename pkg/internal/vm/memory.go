package vm

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/resource"
	v1 "kubevirt.io/api/core/v1"
)

// Memory is hot-plugged in blocks (virtio-mem on x86): of 2 MiB, or of one page with huge pages of 1 GiB. KubeVirt has the same limits
// (pkg/liveupdate/memory/memory.go).
const (
	plugBlock = 2 << 20
	largePage = 1 << 30
	// minPluggable is the smallest memory.guest that can grow: Linux places its first 32-bit devices above.
	minPluggable = 1 << 30
)

// mostMemory is the largest memory of a guest: QEMU's processors have addresses of 52 bits on amd64 and arm64 (QEMU, target/i386/cpu-param.h and
// target/arm/cpu-param.h, TARGET_PHYS_ADDR_SPACE_BITS). Guests on s390x have the same bound, because no mainframe has memory for its addresses of 64 bits.
var mostMemory = resource.MustParse("4Pi")

// NoMemory is the detail of an error about an amount that IsMemory refuses.
const NoMemory = "must be greater than 0 and at most 4Pi"

// IsMemory reports whether a guest can have an amount of memory. Trap: a Quantity may be greater than any int64, such as '1e400', and its Value is 0 then.
func IsMemory(amount resource.Quantity) bool { return amount.Sign() > 0 && amount.Cmp(mostMemory) <= 0 }

// PageSize returns memory.hugepages.pageSize in bytes. It returns 0 if the size is not set, is not a quantity or is negative.
func PageSize(memory *v1.Memory) int64 {
	if memory == nil || memory.Hugepages == nil {
		return 0
	}
	size, err := resource.ParseQuantity(memory.Hugepages.PageSize)
	if err != nil {
		return 0
	}
	return max(size.Value(), 0)
}

// CanGrow reports whether memory.guest, which must be set, can grow to a ceiling while the VMI runs. Stage 1's default for maxGuest and the rule about maxGuest
// must agree about it.
func CanGrow(spec *v1.VirtualMachineInstanceSpec, ceiling resource.Quantity) bool {
	reason, _ := FixedMemory(spec, ceiling)
	return reason == ""
}

// FixedMemory returns the text of an error about why CanGrow is false; empty if it is true. ofArchitecture means that the reason is the architecture.
func FixedMemory(spec *v1.VirtualMachineInstanceSpec, ceiling resource.Quantity) (reason string, ofArchitecture bool) {
	guest, block := spec.Domain.Memory.Guest, int64(plugBlock)
	if PageSize(spec.Domain.Memory) == largePage {
		block = largePage
	}
	switch {
	case spec.Domain.CPU != nil && spec.Domain.CPU.Realtime != nil:
		return "memory cannot grow with cpu.realtime", false
	case MirrorsNUMA(spec.Domain.CPU):
		return "memory cannot grow with cpu.numa.guestMappingPassthrough", false
	case spec.Domain.LaunchSecurity != nil:
		return "memory cannot grow with launchSecurity", false
	case guest.Value()%block != 0:
		return fmt.Sprintf("memory.guest '%s' cannot grow: only a multiple of %d MiB can", guest.String(), block>>20), false
	case ceiling.Value()%block != 0:
		return fmt.Sprintf("must be a multiple of %d MiB", block>>20), false
	case spec.Architecture != "amd64":
		return "memory cannot grow on architecture '" + spec.Architecture + "'", true
	case guest.Value() < minPluggable:
		return "memory below 1Gi cannot grow", false
	}
	return "", false
}
