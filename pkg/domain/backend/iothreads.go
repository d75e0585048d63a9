package backend

import (
	"github.com/kilnvm/kiln/pkg/hardware"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/cpuset"
	"k8s.io/utils/ptr"
	v1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"
)

// Elements: iothreads, iothreadids, cputune/iothreadpin, disk/driver@iothread and iothreads. API fields: domain.ioThreadsPolicy, ioThreads,
// disks[].dedicatedIOThread; host profile: ioThreads, whose policy is for VMIs without one.
// KubeVirt: converter/iothreads/iothreads.go. libvirt: "IOThreads Allocation".
// Only disks on some buses have IO threads in QEMU. The others count, as in KubeVirt, so that the numbers of threads are equal.

// ioThreads is the number of threads, dedicated ones included.
func (h *host) ioThreads() uint { return h.plan.count }

// ioThreadIDs sets polling and pool limits of each thread, if the host profile has them; else QEMU's defaults apply.
func (h *host) ioThreadIDs() *libvirtxml.DomainIOThreadIDs {
	p, count := h.policy.IOThreads, h.plan.count
	if count == 0 || p.PollMaxNanoseconds == nil && p.PoolMin == nil && p.PoolMax == nil {
		return nil
	}
	out := &libvirtxml.DomainIOThreadIDs{}
	for id := uint(1); id <= count; id++ {
		thread := libvirtxml.DomainIOThread{ID: id, PoolMin: toUint(p.PoolMin), PoolMax: toUint(p.PoolMax)}
		if p.PollMaxNanoseconds != nil {
			thread.Poll = &libvirtxml.DomainIOThreadPoll{Max: toUint(p.PollMaxNanoseconds)}
		}
		out.IOThreads = append(out.IOThreads, thread)
	}
	return out
}

// toUint converts an optional number of a profile to libvirtxml's type.
func toUint[T int32 | int64](n *T) *uint {
	if n == nil {
		return nil
	}
	value := uint(*n)
	return &value
}

// ioThreadsPolicy returns the IO threads policy of the spec, else of the host profile; nil if neither has one.
func (h *host) ioThreadsPolicy() *v1.IOThreadsPolicy {
	policy := h.spec.Domain.IOThreadsPolicy
	if name := v1.IOThreadsPolicy(h.policy.IOThreads.Policy); policy == nil && name != "" {
		policy = &name
	}
	return policy
}

// threadPlan is the number of threads and their assignment to disks. libvirt numbers threads from 1.
type threadPlan struct {
	count uint
	// byDisk has the thread of each disk of the spec, 0 for one without. pool is the number of threads of a supplemental pool, which all virtio disks use.
	byDisk []uint
	pool   uint
}

// forDisk returns the thread of a disk by its index in the spec; nil for a disk without one.
func (p threadPlan) forDisk(i int) *uint {
	if i >= len(p.byDisk) || p.byDisk[i] == 0 {
		return nil
	}
	return &p.byDisk[i]
}

// poolThreads returns all threads of the pool; nil without one.
func (p threadPlan) poolThreads() *libvirtxml.DomainDiskIOThreads {
	if p.pool == 0 {
		return nil
	}
	threads := &libvirtxml.DomainDiskIOThreads{}
	for id := uint(1); id <= p.pool; id++ {
		threads.IOThread = append(threads.IOThread, libvirtxml.DomainDiskIOThread{ID: id})
	}
	return threads
}

func hasIOThreads(disk *v1.Disk) bool {
	return disk.Disk != nil && hardware.Bus(disk.Disk.Bus).IOThreads
}

// planThreads follows KubeVirt: shared threads come first and are assigned to disks in turn, dedicated ones follow. A supplemental pool replaces
// both.
func (h *host) planThreads() (plan threadPlan) {
	disks, dedicated := h.spec.Domain.Devices.Disks, uint(0)
	for i := range disks {
		if ptr.Deref(disks[i].DedicatedIOThread, false) {
			dedicated++
		}
	}
	policy := h.ioThreadsPolicy()
	if policy == nil && dedicated == 0 {
		return plan
	}
	if policy != nil && *policy == v1.IOThreadsPolicySupplementalPool {
		if threads := h.spec.Domain.IOThreads; threads != nil && threads.SupplementalPoolThreadCount != nil {
			plan.pool = uint(*threads.SupplementalPoolThreadCount)
		}
		plan.count = plan.pool
		return plan
	}
	auto := h.autoThreads(uint(len(disks))-dedicated, dedicated)
	plan.count, plan.byDisk = auto+dedicated, make([]uint, len(disks))
	next, own := uint(0), auto
	for i := range disks {
		switch {
		case ptr.Deref(disks[i].DedicatedIOThread, false):
			own++
			plan.byDisk[i] = own
		case auto > 0 && hasIOThreads(&disks[i]):
			plan.byDisk[i] = next%auto + 1
			next++
		}
	}
	return plan
}

// autoThreads returns how many threads the disks without a dedicated one share: one, or with policy auto one for each disk, up to twice the
// requested CPUs less the dedicated threads. With an isolated emulator the limit is one, as in KubeVirt.
func (h *host) autoThreads(shared, dedicated uint) uint {
	if shared == 0 {
		return 0
	}
	policy := h.ioThreadsPolicy()
	if policy == nil || *policy != v1.IOThreadsPolicyAuto {
		return 1
	}
	if count := h.policy.IOThreads.Count; count != nil {
		return min(uint(*count), shared)
	}
	limit := uint(1)
	cpu := h.spec.Domain.CPU
	if isolated := cpu != nil && cpu.DedicatedCPUPlacement && cpu.IsolateEmulatorThread; !isolated {
		limit = 2 * h.requestedCPUs()
	}
	if shared+dedicated > limit {
		if limit <= dedicated {
			return 1
		}
		return limit - dedicated
	}
	return shared
}

// requestedCPUs is the pod's CPU limit or request, rounded up, else the guest's vCPUs.
func (h *host) requestedCPUs() uint {
	for _, list := range []corev1.ResourceList{h.spec.Domain.Resources.Limits, h.spec.Domain.Resources.Requests} {
		if quantity, found := list[corev1.ResourceCPU]; found && quantity.Sign() > 0 {
			return uint(quantity.Value())
		}
	}
	return h.Frontend.VCPU.Value
}

// ioThreadPins pins all IO threads to hostProfile.ioThreads.cpus. Without it, IO threads of guests with dedicated CPUs stay on those:
// threads of the supplemental pool on their own CPUs, others with the isolated emulator, else spread evenly over the vCPUs' CPUs.
func (h *host) ioThreadPins() []libvirtxml.DomainCPUTuneIOThreadPin {
	plan, pins := h.plan, h.pins
	if pins == nil && h.policy.IOThreads.CPUs == "" {
		return nil
	}
	all, err := cpuset.Parse(h.policy.IOThreads.CPUs)
	if err != nil {
		h.addError(field.Invalid(policyPath("ioThreads", "cpus"), h.policy.IOThreads.CPUs, "must be a list of CPUs such as '0-3,8'"))
	}
	if pins == nil && all.IsEmpty() {
		return nil
	}
	var out []libvirtxml.DomainCPUTuneIOThreadPin
	for i := range plan.count {
		var cpus []int
		switch n, threads := int(i), int(plan.count); {
		case !all.IsEmpty():
			cpus = all.List()
		case plan.pool > 0:
			cpus = pins.pool[n : n+1]
		case len(pins.emulator) > 0:
			cpus = pins.emulator
		case threads >= len(pins.vcpus):
			cpus = []int{pins.vcpus[n%len(pins.vcpus)]}
		default:
			cpus = pins.vcpus[n*len(pins.vcpus)/threads : (n+1)*len(pins.vcpus)/threads]
		}
		out = append(out, libvirtxml.DomainCPUTuneIOThreadPin{IOThread: i + 1, CPUSet: cpuset.New(cpus...).String()})
	}
	return out
}
