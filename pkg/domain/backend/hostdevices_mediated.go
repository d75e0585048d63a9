package backend

import "libvirt.org/go/libvirtxml"

// Documents: node devices, one for each mediated device that is made for this start, in the order of the devices' names. KubeVirt's node agent
// makes them through sysfs. libvirt: "Node devices XML format".

func (h *host) mediatedDevices() (out []libvirtxml.NodeDevice) {
	for _, name := range sortedNames(h.Bindings.HostDevs, func(d HostDev) bool { return d.MediatedType != "" && mediated[d.Type] != "" }) {
		bound := h.Bindings.HostDevs[name]
		out = append(out, libvirtxml.NodeDevice{Parent: bound.Parent, Capability: libvirtxml.NodeDeviceCapability{MDev: &libvirtxml.NodeDeviceMDevCapability{
			Type: &libvirtxml.NodeDeviceMDevCapabilityType{ID: bound.MediatedType}, UUID: bound.Address}}})
	}
	return out
}
