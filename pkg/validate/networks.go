package validate

import (
	"fmt"

	"github.com/kilnvm/kiln/pkg/config"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// Fields: networks. Interfaces are in networks_interfaces.go, their ports in networks_ports.go.
// A network is of one type, has a name of its own and one interface; at most one is the pod's default network.

func networks(spec *v1.VirtualMachineInstanceSpec, _ config.Limits, path *field.Path) (errs field.ErrorList) {
	for i := range spec.Networks {
		network, at := &spec.Networks[i], path.Child("networks").Index(i)
		set := networkTypes(network)
		switch {
		case len(set) == 0:
			errs = append(errs, field.Required(at, "give the network a type: pod, multus or resourceClaim").WithOrigin("networks/type"))
		case len(set) > 1:
			errs = append(errs, field.Forbidden(at.Child(set[1]), "cannot be together with "+set[0]+": a network has one type").WithOrigin("networks/types"))
		}
		if network.Multus != nil && network.Multus.NetworkName == "" {
			errs = append(errs, field.Required(at.Child("multus", "networkName"), "name the NetworkAttachmentDefinition").WithOrigin("networks/multus-name"))
		}
	}
	return errs
}

func networkTypes(n *v1.Network) (set []string) {
	if n.Pod != nil {
		set = append(set, "pod")
	}
	if n.Multus != nil {
		set = append(set, "multus")
	}
	if n.ResourceClaim != nil {
		set = append(set, "resourceClaim")
	}
	return set
}

// networkDefaults: a pod has one default network, which is the cluster's own or a Multus one in its place.
func networkDefaults(spec *v1.VirtualMachineInstanceSpec, _ config.Limits, path *field.Path) (errs field.ErrorList) {
	pod, multus := -1, -1
	for i, network := range spec.Networks {
		at := path.Child("networks").Index(i)
		if network.Pod != nil {
			if pod >= 0 {
				errs = append(errs, field.Forbidden(at.Child("pod"), fmt.Sprintf("networks[%d] is the pod's network already: remove one of the two", pod)).WithOrigin("networks/pod-twice"))
			} else {
				pod = i
			}
		}
		if network.Multus != nil && network.Multus.Default {
			if multus >= 0 {
				errs = append(errs, field.Forbidden(at.Child("multus", "default"), fmt.Sprintf("networks[%d] is the default already: only one can be", multus)).WithOrigin("networks/default-twice"))
			} else {
				multus = i
			}
		}
	}
	if pod >= 0 && multus >= 0 {
		errs = append(errs, field.Forbidden(path.Child("networks").Index(pod).Child("pod"), fmt.Sprintf("networks[%d] is the default network already: remove one of them", multus)).WithOrigin("networks/pod-and-default"))
	}
	return errs
}

// networkPairs matches networks and interfaces by name, one to one.
func networkPairs(spec *v1.VirtualMachineInstanceSpec, _ config.Limits, path *field.Path) (errs field.ErrorList) {
	nics, nets := map[string]bool{}, map[string]bool{}
	for _, nic := range spec.Domain.Devices.Interfaces {
		nics[nic.Name] = true
	}
	for i, network := range spec.Networks {
		at := path.Child("networks").Index(i).Child("name")
		if nets[network.Name] {
			errs = append(errs, field.Duplicate(at, network.Name).WithOrigin("networks/name-twice"))
		} else if !nics[network.Name] {
			errs = append(errs, field.Invalid(at, network.Name, "no interface has this name: add one to domain.devices.interfaces, or remove the network").WithOrigin("networks/interface-missing"))
		}
		nets[network.Name] = true
	}
	seen := map[string]bool{}
	for i, nic := range spec.Domain.Devices.Interfaces {
		at := path.Child("domain", "devices", "interfaces").Index(i).Child("name")
		if seen[nic.Name] {
			errs = append(errs, field.Duplicate(at, nic.Name).WithOrigin("networks/interface-twice"))
		} else if !nets[nic.Name] {
			errs = append(errs, field.Invalid(at, nic.Name, "no network has this name: add it to networks, or remove the interface").WithOrigin("networks/network-missing"))
		}
		seen[nic.Name] = true
	}
	return errs
}

// networkClaims are networks of devices that a dynamic resource driver hands out.
func networkClaims(spec *v1.VirtualMachineInstanceSpec, limits config.Limits, path *field.Path) (errs field.ErrorList) {
	multus, claimed := false, map[string]bool{}
	for _, claim := range spec.ResourceClaims {
		claimed[claim.Name] = true
	}
	for _, network := range spec.Networks {
		multus = multus || network.Multus != nil
	}
	for i, network := range spec.Networks {
		claim, at := network.ResourceClaim, path.Child("networks").Index(i).Child("resourceClaim")
		if claim == nil {
			continue
		}
		if off := gated(limits, "NetworkDevicesWithDRA", at).WithOrigin("networks/claim-gate"); len(off) > 0 {
			errs = append(errs, off...)
			continue
		}
		if multus {
			errs = append(errs, field.Forbidden(at, "cannot be together with networks of type multus").WithOrigin("networks/claim-and-multus"))
			continue
		}
		switch {
		case claim.ClaimName == "":
			errs = append(errs, field.Required(at.Child("claimName"), "name an entry of resourceClaims").WithOrigin("networks/claim-name"))
		case !claimed[claim.ClaimName]:
			errs = append(errs, field.NotFound(at.Child("claimName"), claim.ClaimName).WithOrigin("networks/claim-undeclared"))
		}
		if claim.RequestName == "" {
			errs = append(errs, field.Required(at.Child("requestName"), "name the request in the claim").WithOrigin("networks/claim-request"))
		}
		for j, nic := range spec.Domain.Devices.Interfaces {
			if nic.Name == network.Name && nic.SRIOV == nil && nic.Binding == nil {
				errs = append(errs, field.Invalid(path.Child("domain", "devices", "interfaces").Index(j), nic.Name, "a network of a resource claim needs binding sriov or a plugin").WithOrigin("networks/claim-binding"))
			}
		}
	}
	return errs
}
