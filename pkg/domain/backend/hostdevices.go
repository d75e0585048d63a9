package backend

import (
	"errors"
	"fmt"
	"slices"

	"github.com/kilnvm/kiln/pkg/address"
	"github.com/kilnvm/kiln/pkg/domain/abi"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"libvirt.org/go/libvirtxml"
)

// Elements: hostdev/source. The frontend has the kind of the device; the binding must be of that kind.
// KubeVirt: device/hostdevice, which takes addresses from the environment of device plugins. libvirt: "Host device assignment".

// completeHostdevs returns the devices of the frontend with their sources. A device without a binding is an error: the guest would boot without hardware that
// its record has.
func (h *host) completeHostdevs() []libvirtxml.DomainHostdev {
	out := slices.Clone(h.Frontend.Devices.Hostdevs)
	for i := range out {
		name := abi.Name("hostdev", out[i].Alias)
		at := h.hostdevPath(name)
		bound, found := h.boundHostdev(name)
		if !found {
			h.addError(field.Invalid(at, name, h.nodeName()+" has no binding for this device"))
			continue
		}
		if err := bindHostdev(&out[i], bound); err != nil {
			h.addError(field.Invalid(at, bound.Address, "the device that "+h.nodeName()+" binds: "+err.Error()))
		}
	}
	h.checkBundles()
	return out
}

// boundHostdev returns the binding of a device of the frontend: of a host device, or of one of the USB devices of a bundle.
func (h *host) boundHostdev(name string) (HostDev, bool) {
	bound, found := h.Bindings.HostDevs[name]
	if found {
		return bound, true
	}
	first, n, bundled := abi.CutBundled(name)
	if bound = h.Bindings.HostDevs[first]; !bundled || n-2 >= len(bound.Bundle) {
		return HostDev{}, false
	}
	return HostDev{Type: bound.Type, Address: bound.Bundle[n-2]}, true
}

// checkBundles refuses bundles of which the frontend has not all USB devices: the guest would boot without hardware that its pod was given.
func (h *host) checkBundles() {
	devices := h.Frontend.Devices.Hostdevs
	for _, name := range sortedNames(h.Bindings.HostDevs, func(d HostDev) bool { return len(d.Bundle) > 0 }) {
		all := 1 + len(h.Bindings.HostDevs[name].Bundle)
		last := abi.BundledName(name, all)
		if !slices.ContainsFunc(devices, func(d libvirtxml.DomainHostdev) bool { return abi.Name("hostdev", d.Alias) == last }) {
			h.addError(field.Invalid(h.hostdevPath(name), name, fmt.Sprintf("%s binds %d USB devices, and the hardware of this boot has fewer", h.nodeName(), all)))
		}
	}
}

// hostdevPath returns the field of a device: in gpus, hostDevices or, for SR-IOV, interfaces.
func (h *host) hostdevPath(name string) *field.Path {
	devices := h.spec.Domain.Devices
	at := h.domain.Child("devices")
	if first, _, bundled := abi.CutBundled(name); bundled && len(h.Bindings.HostDevs[first].Bundle) > 0 {
		name = first
	}
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
		at, err := address.ParseHostPCI(bound.Address)
		if err != nil {
			return err
		}
		pci := *out.SubsysPCI
		pci.Source = &libvirtxml.DomainHostdevSubsysPCISource{Address: &libvirtxml.DomainAddressPCI{Domain: &at.Domain, Bus: &at.Bus, Slot: &at.Slot,
			Function: &at.Function}}
		out.SubsysPCI, out.Managed = &pci, "no"
	case out.SubsysMDev != nil && mediated[bound.Type] == out.SubsysMDev.Model:
		mdev := *out.SubsysMDev
		mdev.Source = &libvirtxml.DomainHostdevSubsysMDevSource{Address: &libvirtxml.DomainAddressMDev{UUID: bound.Address}}
		out.SubsysMDev = &mdev
	case out.SubsysUSB != nil && bound.Type == "usb":
		var bus, device uint
		if _, err := fmt.Sscanf(bound.Address, "%d.%d", &bus, &device); err != nil {
			return errors.New("must be a USB address of a host such as '1.4'")
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
