package frontend

import (
	"cmp"
	"slices"

	"github.com/kilnvm/kiln/pkg/record"
)

// Owns the model of the USB controllers, which no field of the API governs. addresses_controllers.go has their number.
// KubeVirt: converter/compute/controllers.go, which has only qemu-xhci. libvirt: "Controllers".

// usbModels are the xHCI controllers that QEMU has on PCI Express. Controllers of USB 2 are not among them: they come in groups, each with fewer ports, and
// recorded ports of devices would not fit.
var usbModels = []string{defaultUSBModel, "nec-xhci"}

// HasUSBModel reports whether a guest can have USB controllers of a model.
func HasUSBModel(model string) bool { return slices.Contains(usbModels, model) }

// defaultUSBModel is KubeVirt's model. Guests whose records have no model have it, too.
const defaultUSBModel = "qemu-xhci"

// defaultUSBPorts is the number of ports of an xHCI controller whose ports nobody set. QEMU: hw/usb/hcd-xhci-pci.c and hcd-xhci-nec.c.
const defaultUSBPorts = 4

// usbModel returns the recorded model if the guest had a USB controller, else the model of the defaults.
func (p *addressPlanner) usbModel() string {
	path, model := p.devPath, p.Defaults.USBModel
	if p.recordedAddress(record.ControllerKey("usb", 0)).PCI != "" {
		path, model = p.recordPath().Child("usb"), p.Frozen.USB
	}
	model = cmp.Or(model, defaultUSBModel)
	p.checkSupported(path, model, usbModels)
	return model
}
