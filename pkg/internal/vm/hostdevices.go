package vm

import v1 "kubevirt.io/api/core/v1"

// Fields: domain.devices.gpus[].virtualGPUOptions.

// BootDisplay tells whether a vGPU of these options shows what the firmware and the boot loader print, as one of a guest does. A
// switch that is not set is on.
func BootDisplay(options *v1.VGPUOptions) bool {
	if options == nil || options.Display == nil {
		return false
	}
	display := options.Display
	return on(display.Enabled) && (display.RamFB == nil || on(display.RamFB.Enabled))
}

func on(unlessSet *bool) bool { return unlessSet == nil || *unlessSet }
