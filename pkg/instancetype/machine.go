package instancetype

import (
	"github.com/kilnvm/kiln/pkg/internal/filled"
	v1 "kubevirt.io/api/core/v1"
)

// Fields of a preference: machine.preferredMachineType, preferredArchitecture.

// preferMachine is applyMachinePreferences and ApplyArchitecturePreferences. Both must run before package mutate fills the cluster's defaults.
func preferMachine(p *Preference, vmi *v1.VirtualMachineInstance, log *filled.Log) {
	if p.Spec.Machine != nil && p.Spec.Machine.PreferredMachineType != "" {
		if vmi.Spec.Domain.Machine == nil {
			vmi.Spec.Domain.Machine = &v1.Machine{}
		}
		fillText(log, &vmi.Spec.Domain.Machine.Type, p.Spec.Machine.PreferredMachineType)
	}
	if p.Spec.PreferredArchitecture != nil {
		fillText(log, &vmi.Spec.Architecture, *p.Spec.PreferredArchitecture)
	}
}
