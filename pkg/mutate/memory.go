package mutate

import (
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/internal/vm"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	v1 "kubevirt.io/api/core/v1"
)

// Fields: domain.memory.guest, domain.memory.maxGuest.

// guestMemory is what the guest is given: the pod's request, else its limit, else one huge page. A guest with none of
// them stays without, for validate to say so.
func guestMemory(vmi *v1.VirtualMachineInstance, _ config.Defaults) {
	domain := &vmi.Spec.Domain
	if domain.Memory != nil && domain.Memory.Guest != nil {
		return
	}
	guest, found := given(domain.Resources.Requests)
	if !found {
		guest, found = given(domain.Resources.Limits)
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

// given is the memory of a request or a limit. One of nothing says as little as none.
func given(list corev1.ResourceList) (memory resource.Quantity, found bool) {
	memory = list[corev1.ResourceMemory]
	return memory, !memory.IsZero()
}

// maxMemory is how far a running guest may grow: the cluster's ceiling, else a multiple of what it starts with. Guests that
// cannot be plugged get none.
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
	if ceiling.Cmp(*memory.Guest) < 0 || vm.FixedMemory(&vmi.Spec, *ceiling) != "" {
		return
	}
	memory.MaxGuest = ceiling
}
