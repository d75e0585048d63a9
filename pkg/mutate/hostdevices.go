package mutate

import (
	"github.com/kilnvm/kiln/pkg/config"
	v1 "kubevirt.io/api/core/v1"
)

// Fields: domain.devices.gpus[].virtualGPUOptions.display.ramFB.enabled.

// gpuDisplays switches on each ramFB that is present without enabled, as every FeatureState (SetObjectDefaults_VirtualMachineInstance). ramFB is the display of
// a vGPU before its driver is loaded.
func gpuDisplays(vmi *v1.VirtualMachineInstance, _ config.Defaults) {
	for i := range vmi.Spec.Domain.Devices.GPUs {
		options := vmi.Spec.Domain.Devices.GPUs[i].VirtualGPUOptions
		if options != nil && options.Display != nil && options.Display.RamFB != nil {
			enableSwitch(&options.Display.RamFB.Enabled)
		}
	}
}
