package validate

import (
	"fmt"
	"slices"

	"github.com/kilnvm/kiln/pkg/config"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// Fields: networks. Interfaces are in networks_interfaces.go, their ports in networks_ports.go.
// A network has one type, a unique name and one interface; at most one is the pod's default network.
// KubeVirt has these rules in pkg/network/admitter. It applies them when an object is created and when a VM starts; here also when a
// VM is changed, because VMs are judged as they will boot.

var networkRules = []guestRule{
	{networks, []Rule{
		{Name: "networks/type"},
		{Name: "networks/types"},
		{Name: "networks/multus-name"},
	}},
	{networkDefaults, []Rule{
		{Name: "networks/pod-twice"},
		{Name: "networks/default-twice"},
		{Name: "networks/pod-and-default"},
	}},
	{networkPairs, []Rule{
		{Name: "networks/name-twice"},
		{Name: "networks/interface-missing"},
		{Name: "networks/interface-twice"},
		{Name: "networks/network-missing"},
	}},
	{networkClaims, []Rule{
		{Name: "networks/claim-gate"},
		{Name: "networks/claim-and-multus"},
		{Name: "networks/claim-name"},
		{Name: "networks/claim-undeclared"},
		{Name: "networks/claim-request"},
		{Name: "networks/claim-request-form", KubeVirt: KubeVirtAdmits},
		{Name: "networks/claim-binding"},
	}},
}

// networks is validateSingleNetworkSource and validateMultusNetworkSource.
func networks(spec *v1.VirtualMachineInstanceSpec, _ config.Limits, path *field.Path) (errs field.ErrorList) {
	for i := range spec.Networks {
		network := &spec.Networks[i]
		at := func(names ...string) *field.Path { return below(path.Child("networks"), i, names...) }
		switch first, second := networkTypes(network); {
		case first == "":
			errs = append(errs, field.Required(at(), "give the network a type: pod, multus or resourceClaim").WithOrigin("networks/type"))
		case second != "":
			errs = append(errs, field.Forbidden(at(second), "cannot be combined with "+first+": a network has one type").WithOrigin("networks/types"))
		}
		if network.Multus != nil && network.Multus.NetworkName == "" {
			errs = append(errs, field.Required(at("multus", "networkName"), "name the NetworkAttachmentDefinition").WithOrigin("networks/multus-name"))
		}
	}
	return errs
}

// networkTypes returns the field names of the first two types that are set.
func networkTypes(n *v1.Network) (first, second string) {
	return firstTwo(kind{"pod", n.Pod != nil}, kind{"multus", n.Multus != nil}, kind{"resourceClaim", n.ResourceClaim != nil})
}

// networkDefaults allows one default network: the pod network, or a Multus network in its place.
// In KubeVirt it is validateSinglePodNetwork. A pod has one default network, which gives it its address and its default route.
func networkDefaults(spec *v1.VirtualMachineInstanceSpec, _ config.Limits, path *field.Path) (errs field.ErrorList) {
	pod, multus := -1, -1
	for i := range spec.Networks {
		network := &spec.Networks[i]
		at := func(names ...string) *field.Path { return below(path.Child("networks"), i, names...) }
		if network.Pod != nil {
			if pod >= 0 {
				errs = append(errs, field.Forbidden(at("pod"),
					fmt.Sprintf("networks[%d] is already the pod network: remove one of them", pod)).WithOrigin("networks/pod-twice"))
			} else {
				pod = i
			}
		}
		if network.Multus != nil && network.Multus.Default {
			if multus >= 0 {
				errs = append(errs, field.Forbidden(at("multus", "default"),
					fmt.Sprintf("networks[%d] is already the default network: remove one of them", multus)).WithOrigin("networks/default-twice"))
			} else {
				multus = i
			}
		}
	}
	// The error is at the pod network, and its text names the Multus network.
	if pod >= 0 && multus >= 0 {
		errs = append(errs, field.Forbidden(path.Child("networks").Index(pod).Child("pod"),
			fmt.Sprintf("networks[%d] is already the default network: remove one of them", multus)).WithOrigin("networks/pod-and-default"))
	}
	return errs
}

// networkPairs matches networks and interfaces by name, one to one.
// KubeVirt has a function for each direction (validateNetworksAssignedToInterfaces, validateInterfacesAssignedToNetworks) and for each
// list of names (validateNetworkNameUnique, validateInterfaceNameUnique).
func networkPairs(spec *v1.VirtualMachineInstanceSpec, _ config.Limits, path *field.Path) (errs field.ErrorList) {
	// The second of two with one name is reported as a duplicate only: its partner exists.
	cards := spec.Domain.Devices.Interfaces
	nics, nets := make(map[string]bool, len(cards)), make(map[string]bool, len(spec.Networks))
	for i := range cards {
		nics[cards[i].Name] = true
	}
	for i := range spec.Networks {
		network := &spec.Networks[i]
		at := func() *field.Path { return below(path.Child("networks"), i, "name") }
		if nets[network.Name] {
			errs = append(errs, field.Duplicate(at(), network.Name).WithOrigin("networks/name-twice"))
		} else if !nics[network.Name] {
			errs = append(errs, field.Invalid(at(), network.Name,
				"no interface has this name: add one to domain.devices.interfaces, or remove the network").WithOrigin("networks/interface-missing"))
		}
		nets[network.Name] = true
	}
	seen := make(map[string]bool, len(cards))
	for i := range cards {
		nic := &cards[i]
		at := func() *field.Path { return nicPath(path, i, "name") }
		if seen[nic.Name] {
			errs = append(errs, field.Duplicate(at(), nic.Name).WithOrigin("networks/interface-twice"))
		} else if !nets[nic.Name] {
			errs = append(errs, field.Invalid(at(), nic.Name,
				"no network has this name: add it to networks, or remove the interface").WithOrigin("networks/network-missing"))
		}
		seen[nic.Name] = true
	}
	return errs
}

// networkClaims judges networks whose devices a dynamic resource driver allocates. Interfaces are judged once for each name: hundreds of
// networks with the name of hundreds of interfaces would have an error for each pair.
// In KubeVirt it is validateNetworkDevicesWithDRA with its functions. KubeVirt reports a missing gate and a mixture with Multus once for the list;
// here each network is reported, at its own path.
func networkClaims(spec *v1.VirtualMachineInstanceSpec, limits config.Limits, path *field.Path) (errs field.ErrorList) {
	multus := slices.ContainsFunc(spec.Networks, func(n v1.Network) bool { return n.Multus != nil })
	judged := map[string]bool{}
	for i := range spec.Networks {
		network := &spec.Networks[i]
		claim := network.ResourceClaim
		if claim == nil {
			continue
		}
		at := below(path.Child("networks"), i, "resourceClaim")
		if off := gated(limits, "NetworkDevicesWithDRA", at).WithOrigin("networks/claim-gate"); len(off) > 0 {
			errs = append(errs, off...)
			continue
		}
		if multus {
			errs = append(errs, field.Forbidden(at, "cannot be combined with networks of type multus").WithOrigin("networks/claim-and-multus"))
			continue
		}
		switch {
		case claim.ClaimName == "":
			errs = append(errs, field.Required(at.Child("claimName"), "name an entry of resourceClaims").WithOrigin("networks/claim-name"))
		case !slices.ContainsFunc(spec.ResourceClaims, func(c v1.VirtualMachineInstanceResourceClaim) bool { return c.Name == claim.ClaimName }):
			errs = append(errs, field.NotFound(at.Child("claimName"), claim.ClaimName).WithOrigin("networks/claim-undeclared"))
		}
		if claim.RequestName == "" {
			errs = append(errs, field.Required(at.Child("requestName"), "name the request in the claim").WithOrigin("networks/claim-request"))
		} else {
			errs = append(errs, requestNamed(at, claim.RequestName).WithOrigin("networks/claim-request-form")...)
		}
		if judged[network.Name] {
			continue
		}
		judged[network.Name] = true
		for j, nic := range spec.Domain.Devices.Interfaces {
			if nic.Name == network.Name && nic.SRIOV == nil && nic.Binding == nil {
				errs = append(errs, field.Invalid(nicPath(path, j), nic.Name,
					"a network of a resource claim needs binding sriov or a plugin").WithOrigin("networks/claim-binding"))
			}
		}
	}
	return errs
}
