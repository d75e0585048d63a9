package backend

import (
	"maps"
	"slices"

	"libvirt.org/go/libvirtxml"
)

// Documents: node devices, one for each Fibre Channel adapter that is made for this start, in the order of the volumes' names. Several
// LUNs may be behind one.

func (h *host) adapters() (out []libvirtxml.NodeDevice) {
	made := map[HostAdapter]bool{}
	for _, name := range slices.Sorted(maps.Keys(h.Bindings.Volumes)) {
		adapter := h.Bindings.Volumes[name].Adapter
		if adapter == nil || made[*adapter] {
			continue
		}
		made[*adapter] = true
		out = append(out, libvirtxml.NodeDevice{Parent: adapter.Parent,
			Capability: libvirtxml.NodeDeviceCapability{SCSIHost: &libvirtxml.NodeDeviceSCSIHostCapability{
				Capability: []libvirtxml.NodeDeviceSCSIHostSubCapability{{FCHost: &libvirtxml.NodeDeviceSCSIFCHostCapability{WWNN: adapter.WWNN, WWPN: adapter.WWPN}}}}}})
	}
	return out
}
