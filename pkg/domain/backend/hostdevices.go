package backend

import (
	"fmt"
	"slices"

	"github.com/kilnvm/kiln/pkg/address"
	"github.com/kilnvm/kiln/pkg/domain/abi"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"libvirt.org/go/libvirtxml"
)

// Elements: hostdev/source. The frontend has the kind of the device; the binding must be of that kind.
// KubeVirt: device/hostdevice, which takes addresses from the environment of device plugins. libvirt: "Host device assignment".

// hostdevs returns the devices of the frontend with their sources. A device without a binding is an error: the guest would boot without hardware that
// its record has.
func (h *host) hostdevs() []libvirtxml.DomainHostdev {
	out := slices.Clone(h.Frontend.Devices.Hostdevs)
	for i := range out {
		name := abi.Name("hostdev", out[i].Alias)
		at := h.hostdevPath(name)
		bound, found := h.Bindings.HostDevs[name]
		if !found {
			h.fail(field.Invalid(at, name, h.node()+" has no binding for this device"))
			continue
		}
		if err := bindHostdev(&out[i], bound); err != nil {
			h.fail(field.Invalid(at, bound.Address, err.Error()))
		}
	}
	return out
}

// hostdevPath returns the field of a device: in gpus, hostDevices or, for SR-IOV, interfaces.
func (h *host) hostdevPath(name string) *field.Path {
	devices := h.spec.Domain.Devices
	at := h.domain.Child("devices")
	for i := range devices.GPUs {
		if devices.GPUs[i].Name == name {
			return at.Child("gpus").Index(i)
		}
	}
	for i := range devices.HostDevices {
		if devices.HostDevices[i].Name == name {
			return at.Child("hostDevices").Index(i)
		}
	}
	return h.nicPath(name)
}

// mediated has the model of mediated devices by the type of the binding.
var mediated = map[string]string{"mdev": "vfio-pci", "ap": "vfio-ap", "ccw": "vfio-ccw"}

// bindHostdev adds the source. managed is 'no', as in KubeVirt: the device is bound to vfio-pci before the start.
func bindHostdev(out *libvirtxml.DomainHostdev, bound HostDev) error {
	switch {
	case out.SubsysPCI != nil && bound.Type == "pci":
		at, err := address.ParsePCI(bound.Address)
		if err != nil {
			return err
		}
		pci, zero := *out.SubsysPCI, uint(0)
		pci.Source = &libvirtxml.DomainHostdevSubsysPCISource{Address: &libvirtxml.DomainAddressPCI{Domain: &zero, Bus: &at.Bus, Slot: &at.Slot,
			Function: &at.Function}}
		out.SubsysPCI, out.Managed = &pci, "no"
	case out.SubsysMDev != nil && mediated[bound.Type] == out.SubsysMDev.Model:
		mdev := *out.SubsysMDev
		mdev.Source = &libvirtxml.DomainHostdevSubsysMDevSource{Address: &libvirtxml.DomainAddressMDev{UUID: bound.Address}}
		out.SubsysMDev = &mdev
	case out.SubsysUSB != nil && bound.Type == "usb":
		var bus, device uint
		if _, err := fmt.Sscanf(bound.Address, "%d.%d", &bus, &device); err != nil {
			return fmt.Errorf("must be a USB address such as '1.4'")
		}
		usb := *out.SubsysUSB
		usb.Source = &libvirtxml.DomainHostdevSubsysUSBSource{Address: &libvirtxml.DomainAddressUSB{Bus: &bus, Device: &device}}
		out.SubsysUSB = &usb
	default:
		return fmt.Errorf("the bound device has type '%s', which differs from the device of the first boot", bound.Type)
	}
	return nil
}

// assumedPCI is the address of the nth assumed device: eight functions to a slot from 0000:81:00.0 on.
func assumedPCI(n int) string {
	return address.PCI{Bus: 0x81, Slot: uint(n / 8 % 32), Function: uint(n % 8)}.String()
}
