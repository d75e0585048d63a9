package backend

import (
	"cmp"
	"strconv"

	"github.com/kilnvm/kiln/pkg/domain/internal/attr"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	"libvirt.org/go/libvirtxml"
)

// Elements: memoryBacking, memtune, memory@dumpCore. API fields: domain.memory.hugepages, cpu.realtime. Virtiofs and vhost-user need memory
// that another process can map. Host profile: memory, lifecycle.coreDump.
// KubeVirt: converter/compute/memory_backing.go. libvirt: "Memory Backing" and "Memory Tuning".

// memoryBacking changes nothing that the guest sees. Unlike in KubeVirt, no NUMA node of the guest comes or goes with it.
func (h *host) memoryBacking() *libvirtxml.DomainMemoryBacking {
	p, out := h.policy.Memory, libvirtxml.DomainMemoryBacking{}
	if memory := h.spec.Domain.Memory; memory != nil && memory.Hugepages != nil && h.pageKiB() == 0 {
		h.addError(field.Invalid(h.domain.Child("memory", "hugepages", "pageSize"), memory.Hugepages.PageSize, "must be a size such as '2Mi'"))
		return nil
	}
	if size := cmp.Or(h.pageKiB(), h.preferredPageKiB()); size > 0 {
		out.MemoryHugePages = &libvirtxml.DomainMemoryHugepages{Hugepages: h.hugePages(uint(size))}
	}
	// The kernel copies a merged page at the next write (KSM). The delay is not acceptable with cpu.realtime; KubeVirt does the same.
	if c := h.spec.Domain.CPU; c != nil && c.Realtime != nil || ptr.Deref(p.DisablePageMerging, false) {
		out.MemoryNosharepages = &libvirtxml.DomainMemoryNosharepages{}
	}
	if ptr.Deref(p.Locked, false) {
		out.MemoryLocked = &libvirtxml.DomainMemoryLocked{}
	}
	if source := h.memorySource(); source != "" {
		out.MemorySource = &libvirtxml.DomainMemorySource{Type: source}
	}
	if h.sharesMemory() {
		out.MemoryAccess = &libvirtxml.DomainMemoryAccess{Mode: "shared"}
	}
	out.MemoryAllocation = h.memoryAllocation()
	if ptr.Deref(p.Discard, false) {
		out.MemoryDiscard = &libvirtxml.DomainMemoryDiscard{}
	}
	return attr.UnlessEmpty(out)
}

// sharesMemory reports whether another process maps the guest's memory: virtiofsd, or the switch of a vhost-user interface.
func (h *host) sharesMemory() bool {
	for _, nic := range h.Bindings.NICs {
		if nic.Kind == "vhostuser" {
			return true
		}
	}
	return len(h.Frontend.Devices.Filesystems) > 0
}

// memorySource returns hostProfile.memory.backing. If that is not set and another process maps the memory, it returns memfd, as in KubeVirt.
func (h *host) memorySource() string {
	switch backing := h.policy.Memory.Backing; {
	case backing == "anon":
		return "anonymous"
	case backing == "" && h.sharesMemory():
		return "memfd"
	default:
		return backing
	}
}

// memoryAllocation returns hostProfile.memory.allocation. With numa.guestMappingPassthrough it is immediate, as in KubeVirt: if a NUMA node has too few free
// pages, the start fails. On demand, the kernel would kill QEMU later.
func (h *host) memoryAllocation() *libvirtxml.DomainMemoryAllocation {
	p := h.policy.Memory
	out := libvirtxml.DomainMemoryAllocation{Mode: p.Allocation}
	if out.Mode == "" && h.pins != nil && len(h.pins.nodes) > 0 {
		out.Mode = "immediate"
	}
	if p.AllocationThreads != nil {
		out.Threads = uint(*p.AllocationThreads)
	}
	return attr.UnlessEmpty(out)
}

// completeMemory adds dumpCore if hostProfile.lifecycle.coreDump is set: whether a core dump of QEMU contains the guest's memory.
func (h *host) completeMemory() *libvirtxml.DomainMemory {
	dump := h.policy.Lifecycle.CoreDump
	if dump == nil {
		return h.Frontend.Memory
	}
	out := *h.Frontend.Memory
	out.DumpCore = attr.OnOff(*dump)
	return &out
}

// memoryTune returns the limits of QEMU's memory cgroup. A hard limit includes QEMU's own memory, so the couplings refuse one that is not above the guest's
// memory.
func (h *host) memoryTune() *libvirtxml.DomainMemoryTune {
	p := h.policy.Memory
	limit := func(q *resource.Quantity) *libvirtxml.DomainMemoryTuneLimit {
		if q == nil {
			return nil
		}
		return &libvirtxml.DomainMemoryTuneLimit{Value: kibibytes(*q), Unit: "KiB"}
	}
	out := libvirtxml.DomainMemoryTune{HardLimit: limit(p.HardLimit), SoftLimit: limit(p.SoftLimit), SwapHardLimit: limit(p.SwapHardLimit)}
	return attr.UnlessEmpty(out)
}

// preferredPageKiB returns the first of hostProfile.memory.hugePageSizes, in KiB, that divides the guest's memory and of which the host has enough
// pages in total; 0 if no size does. Only at the start it is known how many of them are free.
func (h *host) preferredPageKiB() uint64 {
	for _, quantity := range h.policy.Memory.HugePageSizes {
		size, pages := uint64(quantity.Value()/1024), uint64(0)
		if size == 0 {
			continue // below 1 KiB: InvalidFields reports it
		}
		for _, node := range h.Host.NUMA {
			pages += node.Pages[size]
		}
		if guest := uint64(h.Frontend.Memory.Value); guest%size == 0 && pages*size >= guest {
			return size
		}
	}
	return 0
}

// hugePages names the page size once, or for each NUMA node of the guest.
func (h *host) hugePages(size uint) []libvirtxml.DomainMemoryHugepage {
	if h.pins == nil || len(h.pins.nodes) == 0 {
		return []libvirtxml.DomainMemoryHugepage{{Size: size, Unit: "KiB"}}
	}
	var out []libvirtxml.DomainMemoryHugepage
	for node := range h.pins.nodes {
		out = append(out, libvirtxml.DomainMemoryHugepage{Size: size, Unit: "KiB", Nodeset: strconv.Itoa(node)})
	}
	return out
}

// pageKiB returns memory.hugepages.pageSize in KiB, 0 if it is not set or not a quantity.
func (h *host) pageKiB() uint64 {
	memory := h.spec.Domain.Memory
	if memory == nil || memory.Hugepages == nil {
		return 0
	}
	size, err := resource.ParseQuantity(memory.Hugepages.PageSize)
	if err != nil || size.Value() < 1024 {
		return 0
	}
	return uint64(size.Value() / 1024)
}
