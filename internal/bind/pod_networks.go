package bind

import (
	"errors"
	"slices"

	"github.com/kilnvm/kiln/pkg/domain/backend"
	"github.com/kilnvm/kiln/pkg/pod"
	v1 "kubevirt.io/api/core/v1"
)

// nicKinds has the kind of an interface on the pod network by how guests reach it.
var nicKinds = map[pod.Network]string{pod.Passt: "passt", pod.Slirp: "user"}

// nic connects an interface on the pod network. Masquerade, bridge and passt differ in how the address of the pod becomes that of the guest; here the
// network of the cluster decides that.
func (p *Pod) nic(vmi *v1.VirtualMachineInstance, nic v1.Interface) (backend.NIC, error) {
	onPod := slices.ContainsFunc(vmi.Spec.Networks, func(n v1.Network) bool { return n.Name == nic.Name && n.Pod != nil })
	kind := nicKinds[p.Network]
	switch {
	case !onPod:
		return backend.NIC{}, errors.New("this network is not supported in a pod; use the pod network")
	case nic.Masquerade == nil && nic.Bridge == nil && nic.PasstBinding == nil && nic.DeprecatedPasst == nil:
		return backend.NIC{}, errors.New("this binding is not supported in a pod; use masquerade, bridge or passtBinding")
	case kind == "":
		return backend.NIC{}, errors.New("this pod serves no network")
	}
	return backend.NIC{Kind: kind}, nil
}
