package backend

import (
	"slices"

	"libvirt.org/go/libvirtxml"
)

// Documents: node devices, one for each Fibre Channel adapter that is made for this start, in the order of the volumes' names. Several
// LUNs may be behind one.

func (h *host) adapterDevices() (out []libvirtxml.NodeDevice) {
	made := map[HostAdapter]bool{}
	for _, name := range sortedNames(h.Bindings.Volumes, func(v Volume) bool { return v.Adapter != nil }) {
		adapter := h.Bindings.Volumes[name].Adapter
		if made[*adapter] {
			continue
		}
		made[*adapter] = true
		out = append(out, libvirtxml.NodeDevice{Parent: adapter.Parent,
			Capability: libvirtxml.NodeDeviceCapability{SCSIHost: &libvirtxml.NodeDeviceSCSIHostCapability{
				Capability: []libvirtxml.NodeDeviceSCSIHostSubCapability{{FCHost: &libvirtxml.NodeDeviceSCSIFCHostCapability{WWNN: adapter.WWNN, WWPN: adapter.WWPN}}}}}})
	}
	return out
}

// sortedNames returns the names of the bindings that have something, in their order.
func sortedNames[T any](bindings map[string]T, has func(T) bool) (names []string) {
	for name, binding := range bindings {
		if has(binding) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
