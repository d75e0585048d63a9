package instancetype

import (
	"github.com/kilnvm/kiln/pkg/internal/filled"
	v1 "kubevirt.io/api/core/v1"
)

// Fields of a preference: devices.preferredInterfaceModel, preferredInterfaceMasquerade.

// preferNetworks is applyInterfacePreferences. Masquerade is for an interface on the pod network that has no binding (isInterfaceBindingUnset,
// isInterfaceOnPodNetwork).
func preferNetworks(p *Preference, vmi *v1.VirtualMachineInstance, log *filled.Log) {
	if p.Spec.Devices == nil {
		return
	}
	pod := map[string]bool{}
	for _, network := range vmi.Spec.Networks {
		if _, twice := pod[network.Name]; !twice { // validate refuses a second network of that name
			pod[network.Name] = network.Pod != nil
		}
	}
	for i := range vmi.Spec.Domain.Devices.Interfaces {
		nic := &vmi.Spec.Domain.Devices.Interfaces[i]
		fillText(log, &nic.Model, p.Spec.Devices.PreferredInterfaceModel)
		unbound := nic.InterfaceBindingMethod == (v1.InterfaceBindingMethod{}) && nic.Binding == nil
		if unbound && pod[nic.Name] && p.Spec.Devices.PreferredInterfaceMasquerade != nil {
			fillCopy(log, &nic.Masquerade, p.Spec.Devices.PreferredInterfaceMasquerade)
		}
	}
}
