package startcheck

import (
	"cmp"

	"github.com/kilnvm/kiln/pkg/pod"
	v1 "kubevirt.io/api/core/v1"
)

const reasonNetworkMissing = "network-missing"

// mostNetworks bounds the networks that are looked at.
const mostNetworks = 64

// Network is a NetworkAttachmentDefinition of a guest.
type Network struct{ Namespace, Name string }

// String returns NAMESPACE/NAME.
func (n Network) String() string { return n.Namespace + "/" + n.Name }

// NetworksOf returns the NetworkAttachmentDefinitions of a guest in a namespace.
func NetworksOf(namespace string, spec *v1.VirtualMachineInstanceSpec) (all []Network) {
	if spec == nil {
		return nil
	}
	for i := range spec.Networks[:min(len(spec.Networks), mostNetworks)] {
		if multus := spec.Networks[i].Multus; multus != nil && multus.NetworkName != "" {
			namespace, name := pod.NetworkAttachmentDefinition(namespace, multus.NetworkName)
			all = append(all, Network{namespace, name})
		}
	}
	return all
}

// findNetworks finds whether the NetworkAttachmentDefinitions of the guest exist.
func findNetworks(o Objects) finding {
	spec := o.GuestSpec()
	if spec == nil {
		return finding{state: Unknown, detail: cmp.Or(o.VM.Denied, o.VMI.Denied)}
	}
	all := NetworksOf(o.Namespace, spec)
	unknown := ""
	for _, n := range all {
		found := o.Networks[n.String()]
		switch {
		case found.Unserved:
			return finding{state: Failed, object: object{"NetworkAttachmentDefinition", n.String()}, reason: reasonNetworkMissing,
				message: "the cluster has no NetworkAttachmentDefinitions, because Multus is not installed"}
		case found.isAbsent():
			return finding{state: Failed, object: object{"NetworkAttachmentDefinition", n.String()}, reason: reasonNetworkMissing, message: "it does not exist"}
		case found.Denied != "":
			unknown = cmp.Or(unknown, found.Denied)
		}
	}
	if unknown != "" {
		return finding{state: Unknown, detail: unknown}
	}
	return finding{state: Done, detail: countThings(len(all), "network") + " of Multus"}
}
