package vm

import v1 "kubevirt.io/api/core/v1"

// Fields: domain.devices.gpus[].virtualGPUOptions.

// BootDisplay reports whether a vGPU with these options shows the output of firmware and boot loader (display with ramFB). A field enabled that
// is absent means true, as the API documents. Only one vGPU of a VMI may do so.
func BootDisplay(options *v1.VGPUOptions) bool {
	if options == nil || options.Display == nil {
		return false
	}
	display := options.Display
	return on(display.Enabled) && (display.RamFB == nil || on(display.RamFB.Enabled))
}

func on(unlessSet *bool) bool { return unlessSet == nil || *unlessSet }
