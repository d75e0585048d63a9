package hostresources

import (
	"errors"
	"fmt"
	"slices"

	"github.com/kilnvm/kiln/pkg/domain/backend"
	"github.com/kilnvm/kiln/pkg/pod"
	v1 "kubevirt.io/api/core/v1"
)

// nicKinds maps the way in which guests reach the pod network to the kind of their interfaces.
var nicKinds = map[pod.Network]string{pod.Passt: "passt", pod.Slirp: "user"}

// hostInterface returns the host side of an interface. On the pod network, masquerade, bridge and passt differ only in how the guest gets the address of the
// pod, which Network decides here. On another network of Multus, CNI plugins have created a tap for a bridge.
func (p *Pod) hostInterface(vmi *v1.VirtualMachineInstance, nic v1.Interface) (backend.NIC, error) {
	i := slices.IndexFunc(vmi.Spec.Networks, func(n v1.Network) bool { return n.Name == nic.Name })
	if nic.State == v1.InterfaceStateAbsent || i < 0 {
		return backend.NIC{}, nil // the guest does not have it
	}
	network, kind := vmi.Spec.Networks[i], nicKinds[p.Network]
	switch {
	case nic.SRIOV != nil:
		return backend.NIC{}, nil // a host device
	case network.Multus != nil && !network.Multus.Default && nic.Bridge != nil:
		tap := pod.PodInterface(network.Name)
		return backend.NIC{Kind: "tap", Device: tap, MTU: linkMTU(tap)}, nil
	case network.Pod == nil && (network.Multus == nil || !network.Multus.Default):
		return backend.NIC{}, errors.New("this network is not supported in a pod with this binding; use bridge on a network of Multus, or the pod network")
	case nic.Masquerade == nil && nic.Bridge == nil && nic.PasstBinding == nil && nic.DeprecatedPasst == nil:
		return backend.NIC{}, errors.New("this binding is not supported in a pod; use masquerade, bridge or passtBinding")
	case kind == "":
		return backend.NIC{}, errors.New("this pod serves no network")
	}
	made := backend.NIC{Kind: kind}
	if all := len(nic.Ports)+len(nic.PortRanges) == 0; all && p.Network == pod.Passt {
		switch last := pod.LastForwardedPort(p.OpenFiles); {
		case last == 0:
			return backend.NIC{}, fmt.Errorf("without ports, all are forwarded to the guest, for which passt opens a file each, and a process of this container "+
				"may open %d; list the ports of the interface, or have the administrator raise the limit of the node's container runtime (LimitNOFILE)",
				p.OpenFiles)
		case last < pod.MostPort:
			made.LastPort = last
		}
	}
	return made, nil
}
