package backend

import (
	"cmp"
	"fmt"
	"strconv"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/cpuset"
	"libvirt.org/go/libvirtxml"
)

// Elements: cputune, vcpu@cpuset. API fields: domain.cpu.dedicatedCpuPlacement, isolateEmulatorThread, realtime;
// host profile: cpu, cache. cpu_pinning.go chooses the CPUs.
// KubeVirt: converter/vcpu/vcpu.go. libvirt: "CPU Tuning".

// completeVCPU returns the element vcpu. With hostProfile.cpu.pinStrategy 'None' all vCPUs share the dedicated CPUs.
func (h *host) completeVCPU() *libvirtxml.DomainVCPU {
	if h.pins == nil || h.pins.floating.IsEmpty() {
		return h.Frontend.VCPU
	}
	out := *h.Frontend.VCPU
	out.CPUSet = h.pins.floating.String()
	return &out
}

// cpuTune pins the vCPUs that are enabled at boot, as KubeVirt does.
func (h *host) cpuTune() *libvirtxml.DomainCPUTune {
	out := &libvirtxml.DomainCPUTune{IOThreadPin: h.ioThreadPins(), EmulatorPin: h.emulatorPin()}
	if h.pins != nil && h.pins.floating.IsEmpty() {
		for i, cpu := range h.pins.vcpus {
			out.VCPUPin = append(out.VCPUPin, libvirtxml.DomainCPUTuneVCPUPin{VCPU: uint(i), CPUSet: strconv.Itoa(cpu)})
		}
	}
	set := h.addQuotas(out)
	set = h.addResctrl(out) || set
	if !set && out.VCPUPin == nil && out.EmulatorPin == nil && out.IOThreadPin == nil {
		return nil
	}
	return out
}

// emulatorPin returns the CPUs that isolateEmulatorThread reserves, else hostProfile.cpu.emulatorCPUs.
func (h *host) emulatorPin() *libvirtxml.DomainCPUTuneEmulatorPin {
	if h.pins != nil && len(h.pins.emulator) > 0 {
		return &libvirtxml.DomainCPUTuneEmulatorPin{CPUSet: cpuset.New(h.pins.emulator...).String()}
	}
	if cpus := h.parseCPUs(h.policy.CPU.EmulatorCPUs, "emulatorCPUs"); !cpus.IsEmpty() {
		return &libvirtxml.DomainCPUTuneEmulatorPin{CPUSet: cpus.String()}
	}
	return nil
}

// parseCPUs parses a list of CPUs in the profile's cpu part.
func (h *host) parseCPUs(list, name string) cpuset.CPUSet {
	cpus, err := cpuset.Parse(list)
	if err != nil {
		h.addError(field.Invalid(policyPath("cpu", name), list, "must be a list of CPUs such as '0-3,8'"))
	}
	return cpus
}

// addQuotas adds shares, period, quotas and scheduler, and reports whether there are any. The emulator has the vCPUs' period
// and a quota of its own.
func (h *host) addQuotas(out *libvirtxml.DomainCPUTune) bool {
	p := h.policy.CPU
	if p.Shares != nil {
		out.Shares = &libvirtxml.DomainCPUTuneShares{Value: uint(*p.Shares)}
	}
	if p.PeriodMicroseconds != nil {
		out.Period = &libvirtxml.DomainCPUTunePeriod{Value: uint64(*p.PeriodMicroseconds)}
		out.EmulatorPeriod = &libvirtxml.DomainCPUTunePeriod{Value: uint64(*p.PeriodMicroseconds)}
	}
	if p.QuotaMicroseconds != nil {
		out.Quota = &libvirtxml.DomainCPUTuneQuota{Value: *p.QuotaMicroseconds}
	}
	if p.EmulatorQuotaMicroseconds != nil {
		out.EmulatorQuota = &libvirtxml.DomainCPUTuneQuota{Value: *p.EmulatorQuotaMicroseconds}
	}
	out.VCPUSched = h.vcpuSchedulers()
	return out.Shares != nil || out.Period != nil || out.Quota != nil || out.EmulatorQuota != nil || out.VCPUSched != nil
}

// realtimePriority is KubeVirt's for vCPU threads (SCHED_FIFO). It is the lowest: the kernel's own realtime threads must preempt them.
const realtimePriority = 1

// vcpuSchedulers returns SCHED_FIFO for the vCPUs in realtime.mask, else hostProfile.cpu.vcpuScheduler. KubeVirt's node agent sets it on the running threads
// (hypervisor/kvm/realtime.go); libvirt's element does it at the start.
func (h *host) vcpuSchedulers() []libvirtxml.DomainCPUTuneVCPUSched {
	c, policy := h.spec.Domain.CPU, h.policy.CPU.VCPUScheduler
	realtime := c != nil && c.Realtime != nil
	if !realtime && policy == nil {
		return nil
	}
	sched := libvirtxml.DomainCPUTuneVCPUSched{VCPUs: h.everyVCPU()}
	switch {
	case realtime:
		priority := realtimePriority
		sched.VCPUs, sched.Scheduler, sched.Priority = cmp.Or(c.Realtime.Mask, sched.VCPUs), "fifo", &priority
	default:
		sched.Scheduler = policy.Policy
		if policy.Priority != nil {
			priority := int(*policy.Priority)
			sched.Priority = &priority
		}
	}
	return []libvirtxml.DomainCPUTuneVCPUSched{sched}
}

// everyVCPU lists all vCPUs, hot-pluggable ones included, so that hot-plugged ones have the same scheduler and resctrl group.
func (h *host) everyVCPU() string {
	if h.Frontend.VCPU.Value == 1 {
		return "0"
	}
	return fmt.Sprintf("0-%d", h.Frontend.VCPU.Value-1)
}

// addResctrl adds the parts of the L3 cache and of the memory bandwidth that the vCPUs get, by the kernel's resctrl file system. It reports whether
// there are any.
func (h *host) addResctrl(out *libvirtxml.DomainCPUTune) bool {
	if len(h.policy.Cache.L3Sizes) == 0 && len(h.policy.Cache.MemoryBandwidthPercents) == 0 {
		return false
	}
	caches := libvirtxml.DomainCPUCacheTune{VCPUs: h.everyVCPU()}
	for id, size := range h.policy.Cache.L3Sizes {
		if size := kibibytes(size); size > 0 {
			caches.Cache = append(caches.Cache, libvirtxml.DomainCPUCacheTuneCache{ID: uint(id), Level: 3, Type: "both", Size: uint(size), Unit: "KiB"})
		}
	}
	nodes := libvirtxml.DomainCPUMemoryTune{VCPUs: h.everyVCPU()}
	for id, percent := range h.policy.Cache.MemoryBandwidthPercents {
		if percent > 0 {
			nodes.Nodes = append(nodes.Nodes, libvirtxml.DomainCPUMemoryTuneNode{ID: uint(id), Bandwidth: uint(percent)})
		}
	}
	if caches.Cache != nil {
		out.CacheTune = []libvirtxml.DomainCPUCacheTune{caches}
	}
	if nodes.Nodes != nil {
		out.MemoryTune = []libvirtxml.DomainCPUMemoryTune{nodes}
	}
	return caches.Cache != nil || nodes.Nodes != nil
}
