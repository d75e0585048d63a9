package profile

import (
	"slices"

	v1 "kubevirt.io/api/core/v1"
)

// attachment is a way to connect an interface.
type attachment struct {
	pod     bool
	binding v1.InterfaceBindingMethod
}

var attachments = []attachment{
	{pod: true, binding: v1.InterfaceBindingMethod{Masquerade: &v1.InterfaceMasquerade{}}},
	{binding: v1.InterfaceBindingMethod{Bridge: &v1.InterfaceBridge{}}},
	{binding: v1.InterfaceBindingMethod{SRIOV: &v1.InterfaceSRIOV{}}},
	{pod: true, binding: v1.InterfaceBindingMethod{PasstBinding: &v1.InterfacePasstBinding{}}},
}

// networks gives each interface a network and a binding, and each network an interface. Of several networks one is that of the pod.
func networks(spec *v1.VirtualMachineInstanceSpec, way way) {
	devices, with := &spec.Domain.Devices, of(attachments, way)
	for _, n := range spec.Networks {
		if n.Name != "" && !slices.ContainsFunc(devices.Interfaces, func(iface v1.Interface) bool { return iface.Name == n.Name }) {
			devices.Interfaces = append(devices.Interfaces, v1.Interface{Name: n.Name})
		}
	}
	for i := range devices.Interfaces {
		iface := &devices.Interfaces[i]
		if iface.Name != "" && !slices.ContainsFunc(spec.Networks, func(n v1.Network) bool { return n.Name == iface.Name }) {
			spec.Networks = append(spec.Networks, v1.Network{Name: iface.Name})
		}
		if iface.InterfaceBindingMethod == (v1.InterfaceBindingMethod{}) && iface.Binding == nil {
			iface.InterfaceBindingMethod = with.binding
		}
	}
	if !connect(spec, with) && way%2 == 0 && len(spec.Networks) > 0 { // probes need the pod's network
		spec.Networks = append(spec.Networks, v1.Network{Name: "trial-pod", NetworkSource: v1.NetworkSource{Pod: &v1.PodNetwork{}}})
		devices.Interfaces = append(devices.Interfaces, v1.Interface{Name: "trial-pod", InterfaceBindingMethod: attachments[0].binding})
	}
}

// connect gives each network a source that fits its interface, and reports whether one of them is the pod's.
func connect(spec *v1.VirtualMachineInstanceSpec, with attachment) bool {
	pod := slices.ContainsFunc(spec.Networks, func(n v1.Network) bool { return n.Pod != nil || n.Multus != nil && n.Multus.Default })
	for i := range spec.Networks {
		n := &spec.Networks[i]
		if n.NetworkSource != (v1.NetworkSource{}) {
			continue
		}
		at := slices.IndexFunc(spec.Domain.Devices.Interfaces, func(iface v1.Interface) bool { return iface.Name == n.Name })
		binding := with.binding
		if at >= 0 {
			binding = spec.Domain.Devices.Interfaces[at].InterfaceBindingMethod
		}
		if fits := binding.Masquerade != nil || binding.PasstBinding != nil || with.pod && binding == with.binding; fits && !pod {
			n.Pod, pod = &v1.PodNetwork{}, true
		} else {
			n.Multus = &v1.MultusNetwork{NetworkName: "trial"}
		}
	}
	return pod
}
