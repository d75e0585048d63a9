package backend

import (
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"libvirt.org/go/libvirtxml"
)

// Elements: memoryBacking. API fields: domain.memory.hugepages; file systems want memory that their daemon can map.

func (h *host) memoryBacking() *libvirtxml.DomainMemoryBacking {
	out := &libvirtxml.DomainMemoryBacking{}
	memory := h.spec.Domain.Memory
	huge, shared := memory != nil && memory.Hugepages != nil, len(h.Frontend.Devices.Filesystems) > 0
	if !huge && !shared {
		return nil
	}
	if huge {
		size, err := resource.ParseQuantity(memory.Hugepages.PageSize)
		if err != nil || size.Value() < 1024 {
			h.fail(field.Invalid(h.domain.Child("memory", "hugepages", "pageSize"), memory.Hugepages.PageSize, "must be a size such as '2Mi'"))
			return nil
		}
		out.MemoryHugePages = &libvirtxml.DomainMemoryHugepages{Hugepages: []libvirtxml.DomainMemoryHugepage{{Size: uint(size.Value() / 1024), Unit: "KiB"}}}
	}
	if shared {
		out.MemorySource = &libvirtxml.DomainMemorySource{Type: "memfd"}
		out.MemoryAccess = &libvirtxml.DomainMemoryAccess{Mode: "shared"}
	}
	return out
}
