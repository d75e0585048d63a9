package pod

import (
	"github.com/kilnvm/kiln/pkg/internal/vm"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	v1 "kubevirt.io/api/core/v1"
)

// Fields: domain.memory. The overhead is in memory_overhead.go.
// The pod requests the memory of the guest and of the processes around it. It has a memory limit only if the VMI sets one, as in KubeVirt.
// KubeVirt: WithMemoryRequests, WithHugePages and WithMemoryOverhead of virt-controller's renderresources.go, v1.9.

var memoryEffects = []Effect{
	{"domain.memory.reservedOverhead.memLock", Refused, lockedReason, func(g guest) []int {
		memory := g.spec.Domain.Memory
		locked := memory != nil && memory.ReservedOverhead != nil && memory.ReservedOverhead.MemLock != nil &&
			*memory.ReservedOverhead.MemLock == v1.MemLockRequired
		return onlyIf(locked && !g.LockedMemory)
	}},
}

// lockedReason completes the path of a field that needs locked memory.
const lockedReason = "needs locked memory: an administrator lets nodes lock it, and declares that by --guest-locked-memory (Helm: launcher.lockedMemory)"

// hasHugePages reports whether the guest's memory consists of huge pages.
func (g guest) hasHugePages() bool { return vm.PageSize(g.spec.Domain.Memory) > 0 }

// guestMemory returns the memory of the guest.
func (g guest) guestMemory() resource.Quantity {
	if memory := g.spec.Domain.Memory; memory != nil && memory.Guest != nil {
		return *memory.Guest
	}
	return resource.Quantity{}
}

// addMemory sets requests and limits of memory and huge pages.
func (g guest) addMemory(r *corev1.ResourceRequirements) {
	request := g.memoryRequest()
	limit, limited := r.Limits[corev1.ResourceMemory]
	if g.hasDedicatedCPUs() {
		limit, limited = request, true // a pod has CPUs of its own only if it is Guaranteed
	}
	overcommits := g.spec.Domain.Resources.OvercommitGuestOverhead && !g.hasDedicatedCPUs()
	if g.hasHugePages() {
		size := resource.NewQuantity(vm.PageSize(g.spec.Domain.Memory), resource.BinarySI) // '1024Mi' is a node's hugepages-1Gi
		pages, name := g.guestMemory(), corev1.ResourceName(corev1.ResourceHugePagesPrefix+size.String())
		r.Requests[name], r.Limits[name] = pages, pages
		request, limit = amountBeyond(request, pages), amountBeyond(limit, pages)
		overcommits = false // nothing but the overhead is left
	}
	overhead := g.memoryOverhead()
	request, limit = addQuantities(request, overhead), addQuantities(limit, overhead)
	if overcommits {
		request = g.memoryRequest()
	}
	r.Requests[corev1.ResourceMemory] = request
	switch {
	case limited:
		r.Limits[corev1.ResourceMemory] = limit
	case g.isLimitDemanded(corev1.ResourceMemory):
		r.Limits[corev1.ResourceMemory] = addQuantities(request, request)
	}
}

// memoryRequest returns the request without overhead: requests.memory, else limits.memory, else the guest's memory, divided by the overcommit.
func (g guest) memoryRequest() resource.Quantity {
	own := g.spec.Domain.Resources
	if request := own.Requests[corev1.ResourceMemory]; !request.IsZero() {
		return request
	}
	if limit := own.Limits[corev1.ResourceMemory]; !limit.IsZero() {
		return limit
	}
	memory := g.guestMemory()
	if percent := float64(g.MemoryOvercommit); percent > 0 && !g.hasDedicatedCPUs() {
		return *resource.NewQuantity(int64(float64(memory.Value())*100/percent), resource.BinarySI)
	}
	return memory
}

// addQuantities adds without changing what it is given.
func addQuantities(a, b resource.Quantity) resource.Quantity {
	sum := a.DeepCopy()
	sum.Add(b)
	return sum
}

// amountBeyond returns how much of an amount is above the huge pages.
func amountBeyond(amount, pages resource.Quantity) resource.Quantity {
	if amount.Cmp(pages) <= 0 {
		return resource.Quantity{Format: resource.BinarySI}
	}
	amount = amount.DeepCopy()
	amount.Sub(pages)
	return amount
}

// mountHugePages mounts the guest's huge pages. kubelet counts them against the container.
func (g guest) mountHugePages(m *mounted) {
	if g.hasHugePages() {
		m.addEmptyDir("hugepages", HugePages, corev1.StorageMediumHugePages)
	}
}
