package frontend

import (
	"cmp"
	"slices"

	"github.com/kilnvm/kiln/pkg/address"
	"github.com/kilnvm/kiln/pkg/domain/abi"
	"github.com/kilnvm/kiln/pkg/record"
	v1 "kubevirt.io/api/core/v1"
)

// Owns annotation kubevirt.io/placePCIDevicesOnRootComplex, with addresses_controllers.go.

// isFlat reports whether every device goes on the root bus. Nothing can be hot-plugged then. KubeVirt: PlacePCIDevicesOnRootComplex in
// converter/pci-placement.go.
func (p *addressPlanner) isFlat() bool {
	return p.VMI.Annotations[v1.PlacePCIDevicesOnRootComplex] == "true"
}

// autoPlacedLast keeps KubeVirt's order: it assigns the slots of the other devices first, and libvirt places these in the slots that are left.
func autoPlacedLast(a, b abi.Device) int { return cmp.Compare(autoPlaced(a), autoPlaced(b)) }

// reserveUSBSlot reserves the slot of a USB controller for a guest without USB: a USB device that is added later must not move others.
func (p *addressPlanner) reserveUSBSlot(requests []address.Device, requesters []*abi.Device) ([]address.Device, []*abi.Device) {
	at := slices.IndexFunc(requesters, func(d *abi.Device) bool { return d.Controller != nil })
	if at < 0 {
		return requests, requesters
	}
	reserved := address.Device{Key: record.ControllerKey("usb", 0), Path: p.devPath, Where: address.OnRootBus}
	return slices.Insert(requests, at, reserved), slices.Insert(requesters, at, nil)
}

// autoPlaced is 1 for the devices that come last on the root bus, because KubeVirt leaves their addresses to libvirt, else 0.
func autoPlaced(d abi.Device) int {
	if d.Model == "vfio-pci" || slices.Contains([]string{"filesystem", "video", "sound", "panic", "vsock"}, d.Kind) {
		return 1
	}
	return 0
}
