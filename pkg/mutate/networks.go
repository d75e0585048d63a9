package mutate

import (
	"github.com/kilnvm/kiln/pkg/config"
	v1 "kubevirt.io/api/core/v1"
)

// Fields: networks, domain.devices.interfaces.

// defaultNetwork is SetDefaultNetworkInterface: without networks and interfaces a VMI gets one interface on the pod network, with the
// cluster's defaultNetworkInterface as its binding, unless autoattachPodInterface is false. If the cluster forbids the binding bridge on the pod network,
// KubeVirt answers 400. A pass cannot fail: validate refuses the interface at its path.
func defaultNetwork(vmi *v1.VirtualMachineInstance, d config.Defaults) {
	spec := &vmi.Spec
	attach := spec.Domain.Devices.AutoattachPodInterface
	if len(spec.Networks) > 0 || len(spec.Domain.Devices.Interfaces) > 0 || attach != nil && !*attach {
		return
	}
	nic := v1.DefaultBridgeNetworkInterface()
	if d.NetworkInterface == "masquerade" {
		nic = v1.DefaultMasqueradeNetworkInterface()
	}
	spec.Domain.Devices.Interfaces = []v1.Interface{*nic}
	spec.Networks = []v1.Network{*v1.DefaultPodNetwork()}
}
