package backend

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/cpuset"
	v1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"
)

// Elements: iothreads, cputune/iothreadpin, disk/driver@iothread and iothreads. API fields: domain.ioThreadsPolicy, ioThreads, disks[].dedicatedIOThread.
// Only virtio disks have IO threads of their own in QEMU. The others count, as in KubeVirt, so that the numbers of threads agree.

func (h *host) ioThreads() uint { return h.threadPlan().count }

// threadPlan says how many threads there are and which disk has which. Numbers start at 1.
type threadPlan struct {
	count uint
	// single is the thread of each disk; pool is the threads that every virtio disk shares.
	single map[string]uint
	pool   uint
	virtio map[string]bool
}

func (p threadPlan) of(disk string) (*uint, *libvirtxml.DomainDiskIOThreads) {
	if !p.virtio[disk] {
		return nil, nil
	}
	if p.pool > 0 {
		threads := &libvirtxml.DomainDiskIOThreads{}
		for id := uint(1); id <= p.pool; id++ {
			threads.IOThread = append(threads.IOThread, libvirtxml.DomainDiskIOThread{ID: id})
		}
		return nil, threads
	}
	if id, found := p.single[disk]; found {
		return &id, nil
	}
	return nil, nil
}

func (h *host) threadPlan() threadPlan {
	plan := threadPlan{single: map[string]uint{}, virtio: map[string]bool{}}
	var shared, dedicated []string
	for _, disk := range h.spec.Domain.Devices.Disks {
		plan.virtio[disk.Name] = disk.Disk != nil && disk.Disk.Bus == v1.DiskBusVirtio
		if disk.DedicatedIOThread != nil && *disk.DedicatedIOThread {
			dedicated = append(dedicated, disk.Name)
		} else {
			shared = append(shared, disk.Name)
		}
	}
	policy := h.spec.Domain.IOThreadsPolicy
	if policy == nil && len(dedicated) == 0 {
		return plan
	}
	if policy != nil && *policy == v1.IOThreadsPolicySupplementalPool {
		if threads := h.spec.Domain.IOThreads; threads != nil && threads.SupplementalPoolThreadCount != nil {
			plan.pool = uint(*threads.SupplementalPoolThreadCount)
		}
		plan.count = plan.pool
		return plan
	}
	auto := h.autoThreads(uint(len(shared)), uint(len(dedicated)))
	plan.count = auto + uint(len(dedicated))
	next := uint(0)
	for _, name := range shared {
		if plan.virtio[name] && auto > 0 {
			plan.single[name] = next%auto + 1
			next++
		}
	}
	for i, name := range dedicated {
		plan.single[name] = auto + uint(i) + 1
	}
	return plan
}

// autoThreads is how many threads the disks without one of their own share: one, or with policy auto one each up to twice
// the guest's CPUs.
func (h *host) autoThreads(shared, dedicated uint) uint {
	if shared == 0 {
		return 0
	}
	policy := h.spec.Domain.IOThreadsPolicy
	if policy == nil || *policy != v1.IOThreadsPolicyAuto {
		return 1
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

// ioThreadPins keeps threads of guests with CPUs of their own on those: threads of the supplemental pool on the CPUs taken for
// them, others with the isolated emulator, else spread evenly over the vCPUs' CPUs.
func (h *host) ioThreadPins() []libvirtxml.DomainCPUTuneIOThreadPin {
	plan, pins := h.threadPlan(), h.pins
	var out []libvirtxml.DomainCPUTuneIOThreadPin
	for i := range plan.count {
		var cpus []int
		switch n, threads := int(i), int(plan.count); {
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
