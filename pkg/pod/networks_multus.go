package pod

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"

	v1 "kubevirt.io/api/core/v1"
)

// Fields: networks[].multus. The annotations of Multus are as KubeVirt writes them (pkg/network/multus, v1.9).

const (
	annotationNetworks       = "k8s.v1.cni.cncf.io/networks"
	annotationDefaultNetwork = "v1.multus-cni.io/default-network"
)

// attachment is an element of annotation k8s.v1.cni.cncf.io/networks: NetworkSelectionElement of the network plumbing working group.
type attachment struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
	MAC       string `json:"mac,omitempty"`
	Interface string `json:"interface"`
}

// addMultusAnnotations adds the annotations by which Multus connects the pod.
func (g guest) addMultusAnnotations(annotations map[string]string) {
	var list []attachment
	for i := range g.spec.Networks {
		n := &g.spec.Networks[i]
		nic := g.nicOf(n.Name)
		if n.Multus == nil || nic == nil {
			continue
		}
		if n.Multus.Default {
			annotations[annotationDefaultNetwork] = n.Multus.NetworkName
			continue
		}
		namespace, name := NetworkAttachmentDefinition(g.VMI.Namespace, n.Multus.NetworkName)
		list = append(list, attachment{Name: name, Namespace: namespace, MAC: nic.MacAddress, Interface: PodInterface(n.Name)})
	}
	if len(list) == 0 {
		return
	}
	if text, err := json.Marshal(list); err == nil { // texts always can be
		annotations[annotationNetworks] = string(text)
	}
}

// HasDefinition reports whether the NetworkAttachmentDefinition of a network of Multus can be found from the VMI. It cannot for a default network without a
// namespace: Multus looks for it in its own namespace, or among the configurations of the node.
func HasDefinition(n *v1.Network) bool {
	return n.Multus != nil && (!n.Multus.Default || strings.Contains(n.Multus.NetworkName, "/"))
}

// NetworkAttachmentDefinition returns namespace and name of the object that networkName of a VMI refers to: NAME in the VMI's own namespace, or NAMESPACE/NAME.
func NetworkAttachmentDefinition(own, networkName string) (namespace, name string) {
	if namespace, name, found := strings.Cut(networkName, "/"); found {
		return namespace, name
	}
	return own, networkName
}

// PodInterface returns the name of the pod's interface for a network of Multus. It has 14 bytes, which Linux accepts.
func PodInterface(network string) string {
	const digits = 11 // KubeVirt's
	sum := sha256.Sum256([]byte(network))
	return "pod" + hex.EncodeToString(sum[:])[:digits]
}

// nicOf returns the interface of a network that is present.
func (g guest) nicOf(network string) *v1.Interface {
	nics := g.spec.Domain.Devices.Interfaces
	i := slices.IndexFunc(nics, func(n v1.Interface) bool { return n.Name == network && n.State != v1.InterfaceStateAbsent })
	if i < 0 {
		return nil
	}
	return &nics[i]
}

// hasTaps reports whether an interface of the guest is a tap.
func (g guest) hasTaps() bool { return len(g.interfaceIndexes(g.isTap)) > 0 }

// usesVhost reports whether the kernel can serve one of the taps: those with a virtio card.
func (g guest) usesVhost() bool {
	return len(g.interfaceIndexes(func(n *v1.Interface) bool { return g.isTap(n) && isVirtio(n) })) > 0
}

func (g guest) isTap(n *v1.Interface) bool { return n.Bridge != nil && !g.onPodNetwork(n) }
