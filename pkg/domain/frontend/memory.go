package frontend

import (
	"github.com/kilnvm/kiln/pkg/internal/vm"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"libvirt.org/go/libvirtxml"
)

// Owns domain.memory.guest and maxGuest. What backs the memory (huge pages) is the backend's. Stage 1 has written memory.guest from requests
// and limits.
// KubeVirt: converter/compute/memory.go. libvirt: "Memory Allocation".

// memorySlots is the number of memory devices that can be hot-plugged. It is in the guest's ACPI tables, so it must never change.
const memorySlots = 16

// renderMemory returns memory.guest in KiB, libvirt's own unit. A fraction of a KiB counts as one, as in libvirt.
func (g *guest) renderMemory() *libvirtxml.DomainMemory {
	m := g.spec.Domain.Memory
	if m == nil || m.Guest == nil || !vm.IsMemory(*m.Guest) {
		return &libvirtxml.DomainMemory{Unit: "KiB"} // renderMaxMemory reports the error
	}
	return &libvirtxml.DomainMemory{Value: toKiB(m.Guest), Unit: "KiB"}
}

func toKiB(q *resource.Quantity) uint { return uint((q.Value() + 1023) / 1024) }

// memoryGrows reports whether memory can be added to the running guest.
func (g *guest) memoryGrows() bool {
	m := g.spec.Domain.Memory
	return m != nil && m.Guest != nil && m.MaxGuest != nil && m.MaxGuest.Cmp(*m.Guest) > 0
}

// hugePage returns hugepages.pageSize in KiB. The guest does not see it, but its NUMA nodes have whole pages.
func (g *guest) hugePage() (uint, *field.Error) {
	size := g.spec.Domain.Memory.Hugepages.PageSize
	q, err := resource.ParseQuantity(size)
	if err != nil || q.Value() < 1024 || q.Value()%1024 != 0 {
		return 0, field.Invalid(g.path.Child("memory", "hugepages", "pageSize"), size, "must be a size such as '2Mi'")
	}
	return toKiB(&q), nil
}

// renderMaxMemory returns nil unless maxGuest is above guest: <maxMemory> by itself changes the guest's ACPI tables.
func (g *guest) renderMaxMemory() *libvirtxml.DomainMaxMemory {
	m := g.spec.Domain.Memory
	switch {
	case m == nil || m.Guest == nil:
		g.addError(field.Required(g.path.Child("memory", "guest"), ""))
	case !vm.IsMemory(*m.Guest):
		g.addError(field.Invalid(g.path.Child("memory", "guest"), m.Guest.String(), vm.NoMemory))
	}
	if !g.memoryGrows() {
		return nil
	}
	if !vm.IsMemory(*m.MaxGuest) {
		g.addError(field.Invalid(g.path.Child("memory", "maxGuest"), m.MaxGuest.String(), vm.NoMemory))
	}
	return &libvirtxml.DomainMaxMemory{Value: toKiB(m.MaxGuest), Unit: "KiB", Slots: memorySlots}
}
