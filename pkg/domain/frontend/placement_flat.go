package frontend

import (
	"cmp"
	"slices"

	"github.com/kilnvm/kiln/pkg/address"
	"github.com/kilnvm/kiln/pkg/domain/abi"
	"github.com/kilnvm/kiln/pkg/record"
	v1 "kubevirt.io/api/core/v1"
)

// Owns annotation kubevirt.io/placePCIDevicesOnRootComplex, with placement_controllers.go.

// flat guests have every device on the root bus, as the owner asks for by an annotation of the API. They can be plugged nothing.
func (p *placement) flat() bool { return p.VMI.Annotations[v1.PlacePCIDevicesOnRootComplex] == "true" }

func autoPlacedLast(a, b abi.Device) int { return cmp.Compare(autoPlaced(a), autoPlaced(b)) }

// reserveUSBSlot keeps the slot of the USB controller that a guest without USB does not have yet, behind cards and host devices.
func (p *placement) reserveUSBSlot(asked []address.Device, asking []*abi.Device) ([]address.Device, []*abi.Device) {
	at := slices.IndexFunc(asking, func(d *abi.Device) bool { return d.Controller != nil })
	if at < 0 {
		return asked, asking
	}
	room := address.Device{Key: record.ControllerKey("usb", 0), Path: p.devPath, Where: address.OnRootBus}
	return slices.Insert(asked, at, room), slices.Insert(asking, at, nil)
}

// late devices come last on the root bus, where KubeVirt leaves them to libvirt: 1, others 0.
func autoPlaced(d abi.Device) int {
	if d.Model == "vfio-pci" || slices.Contains([]string{"filesystem", "video", "sound", "panic", "vsock"}, d.Kind) {
		return 1
	}
	return 0
}
