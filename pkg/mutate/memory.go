package mutate

import (
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/internal/vm"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	v1 "kubevirt.io/api/core/v1"
)

// Fields: domain.memory.guest, domain.memory.maxGuest.

// guestMemory is setGuestMemory: memory.guest is the memory request, else the memory limit, else one huge page. Without any of these it stays unset, and
// validate refuses the VMI.
func guestMemory(vmi *v1.VirtualMachineInstance, _ config.Defaults) {
	domain := &vmi.Spec.Domain
	if domain.Memory != nil && domain.Memory.Guest != nil {
		return
	}
	guest, found := memoryOf(domain.Resources.Requests)
	if !found {
		guest, found = memoryOf(domain.Resources.Limits)
	}
	if !found && domain.Memory != nil && domain.Memory.Hugepages != nil {
		page, err := resource.ParseQuantity(domain.Memory.Hugepages.PageSize)
		guest, found = page, err == nil
	}
	if !found {
		return
	}
	if domain.Memory == nil {
		domain.Memory = &v1.Memory{}
	}
	guest = guest.DeepCopy()
	domain.Memory.Guest = &guest
}

// memoryOf is the memory of requests or limits. A zero quantity counts as unset.
func memoryOf(list corev1.ResourceList) (memory resource.Quantity, found bool) {
	memory = list[corev1.ResourceMemory]
	return memory, !memory.IsZero()
}

// maxMemory is setupMemoryHotplug: memory.maxGuest is the cluster's maxGuest, else memory.guest times maxHotplugRatio. If memory cannot grow, maxGuest stays
// unset without an error. vm.CanGrow has the conditions of KubeVirt's ValidateLiveUpdateMemory, by which validate judges a maxGuest that the user wrote.
func maxMemory(vmi *v1.VirtualMachineInstance, d config.Defaults) {
	memory := vmi.Spec.Domain.Memory
	if d.LiveUpdate == nil || memory == nil || memory.Guest == nil || memory.MaxGuest != nil {
		return
	}
	ceiling := resource.NewQuantity(memory.Guest.Value()*int64(d.LiveUpdate.MaxHotplugRatio), resource.BinarySI)
	if d.LiveUpdate.MaxGuest != nil {
		copied := d.LiveUpdate.MaxGuest.DeepCopy()
		ceiling = &copied
	}
	if ceiling.Cmp(*memory.Guest) < 0 || !vm.IsMemory(*ceiling) || !vm.CanGrow(&vmi.Spec, *ceiling) {
		return
	}
	memory.MaxGuest = ceiling
}
