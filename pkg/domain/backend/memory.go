package backend

import (
	"strconv"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"libvirt.org/go/libvirtxml"
)

// Elements: memoryBacking. API fields: domain.memory.hugepages, cpu.realtime; file systems want memory that their daemon can map.

func (h *host) memoryBacking() *libvirtxml.DomainMemoryBacking {
	memory := h.spec.Domain.Memory
	huge, shared := memory != nil && memory.Hugepages != nil, len(h.Frontend.Devices.Filesystems) > 0
	if !huge && !shared {
		return nil
	}
	out := &libvirtxml.DomainMemoryBacking{}
	if huge {
		size := h.pageKiB()
		if size == 0 {
			h.fail(field.Invalid(h.domain.Child("memory", "hugepages", "pageSize"), memory.Hugepages.PageSize, "must be a size such as '2Mi'"))
			return nil
		}
		out.MemoryHugePages = &libvirtxml.DomainMemoryHugepages{Hugepages: h.hugePages(uint(size))}
	}
	if h.pins != nil && len(h.pins.cells) > 0 {
		// All at once at the start, so that a host whose cell has too few pages refuses the guest rather than kills it later.
		out.MemoryAllocation = &libvirtxml.DomainMemoryAllocation{Mode: "immediate"}
	}
	if c := h.spec.Domain.CPU; c != nil && c.Realtime != nil {
		out.MemoryNosharepages = &libvirtxml.DomainMemoryNosharepages{} // a page that was merged is copied at the next write: a delay
	}
	if shared {
		out.MemorySource = &libvirtxml.DomainMemorySource{Type: "memfd"}
		out.MemoryAccess = &libvirtxml.DomainMemoryAccess{Mode: "shared"}
	}
	return out
}

// hugePages says the size once, or for each cell of the guest.
func (h *host) hugePages(size uint) []libvirtxml.DomainMemoryHugepage {
	if h.pins == nil || len(h.pins.cells) == 0 {
		return []libvirtxml.DomainMemoryHugepage{{Size: size, Unit: "KiB"}}
	}
	var out []libvirtxml.DomainMemoryHugepage
	for cell := range h.pins.cells {
		out = append(out, libvirtxml.DomainMemoryHugepage{Size: size, Unit: "KiB", Nodeset: strconv.Itoa(cell)})
	}
	return out
}

// pageKiB is the size of the guest's huge pages in KiB, 0 without any.
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
