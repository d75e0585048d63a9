package vm

import (
	"k8s.io/utils/ptr"
	v1 "kubevirt.io/api/core/v1"
)

// Fields: domain.devices.gpus[].virtualGPUOptions.

// BootDisplay reports whether a vGPU with these options shows the output of firmware and boot loader (display with ramFB). An absent field enabled means true,
// as the API documents. Only one vGPU of a VMI may show this output.
func BootDisplay(options *v1.VGPUOptions) bool {
	if options == nil || options.Display == nil {
		return false
	}
	display := options.Display
	return ptr.Deref(display.Enabled, true) && (display.RamFB == nil || ptr.Deref(display.RamFB.Enabled, true))
}
