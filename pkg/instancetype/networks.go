package instancetype

import (
	"github.com/kilnvm/kiln/pkg/internal/filled"
	v1 "kubevirt.io/api/core/v1"
)

// Fields of a preference: devices.preferredInterfaceModel, preferredInterfaceMasquerade (on the pod network only, and only for
// an interface without a binding).

func preferNetworks(p *Preference, vmi *v1.VirtualMachineInstance, log *filled.Log) {
	if p.Spec.Devices == nil {
		return
	}
	pod := map[string]bool{}
	for _, network := range vmi.Spec.Networks {
		if _, twice := pod[network.Name]; !twice { // a second of the name is refused
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
