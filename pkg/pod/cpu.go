package pod

import (
	"github.com/kilnvm/kiln/pkg/internal/vm"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	v1 "kubevirt.io/api/core/v1"
)

// Fields: domain.cpu.
// A vCPU is a thread that shares the node's CPUs: the pod requests a part of a CPU for each, as many as cpuAllocationRatio says. Dedicated CPUs are
// whole CPUs, and the pod is Guaranteed: kubelet's static CPU manager gives such a container CPUs of its own.
// KubeVirt: WithoutDedicatedCPU and WithCPUPinning of virt-controller's renderresources.go, v1.9.

var cpuEffects = []Effect{
	{"domain.cpu.realtime", Refused, "needs the capability SYS_NICE, which restricted pods have not: remove it, or let the guest run on a bare machine",
		func(g guest) []int {
			cpu := g.spec.Domain.CPU
			return onlyIf(cpu != nil && cpu.Realtime != nil)
		}},
}

// defaultRatio is KubeVirt's cpuAllocationRatio.
const defaultRatio = 10

// hasDedicatedCPUs reports whether the VMI has CPUs of its own.
func (g guest) hasDedicatedCPUs() bool {
	return g.spec.Domain.CPU != nil && g.spec.Domain.CPU.DedicatedCPUPlacement
}

// vcpuCount returns the number of vCPUs at the start, which the spec of an explicit VMI has.
func (g guest) vcpuCount() int64 { return max(vm.VCPUs(g.spec.Domain.CPU), 1) }

// poolThreads returns the number of IO threads with CPUs of their own. KubeVirt counts supplementalPoolThreadCount even with another policy, with which the
// field has no effect.
func (g guest) poolThreads() int64 {
	policy, threads := g.spec.Domain.IOThreadsPolicy, g.spec.Domain.IOThreads
	if policy == nil || *policy != v1.IOThreadsPolicySupplementalPool || threads == nil || threads.SupplementalPoolThreadCount == nil {
		return 0
	}
	return int64(*threads.SupplementalPoolThreadCount)
}

// DedicatedCPUs returns the number of CPUs that the pod of a VMI with dedicatedCpuPlacement requests: for its vCPUs, a supplemental pool of IO threads, and an
// isolated emulator. It returns 0 for a VMI without dedicatedCpuPlacement.
func DedicatedCPUs(vmi *v1.VirtualMachineInstance) int64 {
	return guest{Input: Input{VMI: vmi}, spec: &vmi.Spec}.dedicatedCPUs()
}

func (g guest) dedicatedCPUs() int64 {
	if !g.hasDedicatedCPUs() {
		return 0
	}
	threads := g.vcpuCount() + g.poolThreads()
	return threads + g.emulatorCPUs(threads)
}

// addCPUs sets requests and limits of CPUs. Those that the VMI sets stay, except with dedicated CPUs, whose number follows from the topology.
func (g guest) addCPUs(r *corev1.ResourceRequirements) {
	if g.hasDedicatedCPUs() {
		whole := *resource.NewQuantity(g.dedicatedCPUs(), resource.DecimalSI)
		r.Requests[corev1.ResourceCPU], r.Limits[corev1.ResourceCPU] = whole, whole
		return
	}
	threads := g.vcpuCount() + g.poolThreads()
	limit, limited := r.Limits[corev1.ResourceCPU]
	request, requested := r.Requests[corev1.ResourceCPU]
	if !limited && g.isLimitDemanded(corev1.ResourceCPU) {
		limit, limited = *resource.NewQuantity(threads, resource.DecimalSI), true
		if request.Cmp(limit) > 0 {
			limit = request
		}
		r.Limits[corev1.ResourceCPU] = limit
	}
	if requested {
		return
	}
	ratio := int64(g.CPUAllocationRatio)
	if ratio <= 0 {
		ratio = defaultRatio
	}
	request = *resource.NewMilliQuantity((threads*1000+ratio-1)/ratio, resource.DecimalSI)
	if limited && request.Cmp(limit) > 0 { // KubeVirt's pod would be refused
		request = limit
	}
	r.Requests[corev1.ResourceCPU] = request
}

// emulatorCPUs returns how many CPUs QEMU's own threads have with isolateEmulatorThread: one, or two if the annotation asks for an even number in
// all.
func (g guest) emulatorCPUs(threads int64) int64 {
	if !g.spec.Domain.CPU.IsolateEmulatorThread {
		return 0
	}
	if _, even := g.VMI.Annotations[v1.EmulatorThreadCompleteToEvenParity]; even && threads%2 == 0 {
		return 2
	}
	return 1
}
