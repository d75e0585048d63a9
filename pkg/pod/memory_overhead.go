package pod

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
	v1 "kubevirt.io/api/core/v1"
)

// The memory overhead is the memory that the pod needs besides the guest's memory. Figures are resident sizes that were measured in a launcher's pod (libvirtd
// 40 MiB, passt 21, the launcher about 40), with room above. TestMemory of test/pods compares the sum with the peaks under load. The sum is never below
// KubeVirt's for the same VMI (GetMemoryOverhead of its package hypervisor/kvm, v1.9), which a test compares over the corpus: if KubeVirt has a figure for a
// device, it is the same here.

// Part is one term of the overhead.
type Part struct {
	// What needs the memory, When it does, and how much: '8 MiB' or '8 MiB a vCPU'.
	What, When, Much string
	bytes            func(guest) int64
}

const mebibyte = 1 << 20

// Overhead returns the terms of the memory overhead. Their sum is multiplied by Settings.OverheadRatio.
func Overhead() []Part {
	return []Part{
		{"launcher", "always", "48 MiB", constantBytes(48)},
		{"libvirtd", "always", "48 MiB", constantBytes(48)},
		{"QEMU: its program, devices, buffers, and translated code if it emulates", "always", "112 MiB", constantBytes(112)},
		{"passt, or QEMU's own NAT", "always", "32 MiB", constantBytes(32)},
		{"passt that forwards all ports: sockets of the kernel", "an interface on the pod network has no ports, or has passtBinding", "250 MiB",
			bytesIf(guest.allPorts, 250)},
		{"page tables of the host", "always", "1/512 of the memory", func(g guest) int64 { return g.pageTableMemory() / 512 }},
		{"vCPUs", "always", "8 MiB for each", func(g guest) int64 { return g.vcpuCount() * 8 * mebibyte }},
		{"IO threads", "always", "8 MiB for each, at least one", func(g guest) int64 { return g.ioThreads() * 8 * mebibyte }},
		{"video memory", "unless autoattachGraphicsDevice is false", "32 MiB", bytesIf(guest.hasGraphics, 32)},
		{"flash memory of the firmware", "architecture arm64", "128 MiB", bytesIf(func(g guest) bool { return g.spec.Architecture == "arm64" }, 128)},
		{"swtpm", "devices.tpm", "53 MiB", bytesIf(guest.hasTPM, 53)},
		{"address space of devices, which VFIO locks", "devices.gpus, devices.hostDevices or interfaces with sriov", "1024 MiB", bytesIf(guest.passesThrough, 1024)},
		{"bounce buffers of an encrypted guest", "launchSecurity.sev or snp", "256 MiB", bytesIf(guest.hasSEV, 256)},
		{"probes that run a command in the pod", "a probe with exec or guestAgentPing", "100 MiB, and 10 MiB for each", guest.probeBytes},
		{"no memory from elsewhere: the pod is Guaranteed", "dedicated CPUs, or requests that are the limits", "100 MiB", bytesIf(guest.isGuaranteed, 100)},
		{"memory that the VMI requests itself", "memory.reservedOverhead.addedOverhead", "the value of the field", guest.addedOverhead},
	}
}

func constantBytes(size int64) func(guest) int64 { return func(guest) int64 { return size * mebibyte } }

func bytesIf(holds func(guest) bool, size int64) func(guest) int64 {
	return func(g guest) int64 {
		if holds(g) {
			return size * mebibyte
		}
		return 0
	}
}

// memoryOverhead returns the sum of all parts.
func (g guest) memoryOverhead() resource.Quantity {
	var sum int64
	for _, part := range Overhead() {
		sum += part.bytes(g)
	}
	return *resource.NewQuantity(int64(float64(sum)*max(g.OverheadRatio, 1)), resource.BinarySI)
}

// pageTableMemory returns the memory for which the host has page tables: the guest's memory, or the request if it is greater.
func (g guest) pageTableMemory() int64 {
	memory, request := g.guestMemory(), g.memoryRequest()
	return max(memory.Value(), request.Value())
}

func (g guest) hasGraphics() bool {
	return ptr.Deref(g.spec.Domain.Devices.AutoattachGraphicsDevice, true)
}

func (g guest) passesThrough() bool {
	return len(g.spec.Domain.Devices.GPUs)+len(g.spec.Domain.Devices.HostDevices) > 0 || g.hasVirtualFunctions()
}

func (g guest) hasSEV() bool {
	security := g.spec.Domain.LaunchSecurity
	return security != nil && (security.SEV != nil || security.SNP != nil)
}

// ioThreads returns how many IO threads QEMU has; one if the VMI does not say, as in KubeVirt.
func (g guest) ioThreads() int64 {
	own := slices.DeleteFunc(slices.Clone(g.spec.Domain.Devices.Disks), func(d v1.Disk) bool { return !ptr.Deref(d.DedicatedIOThread, false) })
	return max(g.poolThreads(), int64(len(own)), 1)
}

// probeBytes are KubeVirt's figures for its virt-probe.
func (g guest) probeBytes() int64 {
	var size int64
	for _, probe := range []*v1.Probe{g.spec.ReadinessProbe, g.spec.LivenessProbe} {
		if probe != nil && (probe.Exec != nil || probe.GuestAgentPing != nil) {
			size = max(size, 100) + 10
		}
	}
	return size * mebibyte
}

// isGuaranteed reports whether limits of memory and CPUs are the requests. Such a container is killed at its limit, and has nothing to borrow from its node.
func (g guest) isGuaranteed() bool { return g.hasDedicatedCPUs() || g.VMI.WantsToHaveQOSGuaranteed() }

func (g guest) addedOverhead() int64 {
	memory := g.spec.Domain.Memory
	if memory == nil || memory.ReservedOverhead == nil || memory.ReservedOverhead.AddedOverhead == nil {
		return 0
	}
	return max(memory.ReservedOverhead.AddedOverhead.Value(), 0)
}
