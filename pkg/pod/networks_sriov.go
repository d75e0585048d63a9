package pod

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// Fields: domain.devices.interfaces[].sriov, networks[].resourceClaim, and the resources of networks of Multus.
// A virtual function comes from a device plugin by the resource that its NetworkAttachmentDefinition names, or from a claim of dynamic resource allocation. The
// guest gets it by VFIO, like other host devices. CNI plugins give it the MAC address of the interface.

// AnnotationResource is an annotation of a NetworkAttachmentDefinition. It names the resource of a device plugin that a pod requests for each connection to the
// network.
const AnnotationResource = "k8s.v1.cni.cncf.io/resourceName"

// EnvNetworkResource is how environment variables begin that end in the name of a network. Such a variable has the resource of the network's virtual function.
const EnvNetworkResource = "NETWORK_RESOURCE_"

var virtualFunctionEffects = []Effect{
	{"domain.devices.interfaces[].sriov", Refused, lockedReason, func(g guest) []int {
		return g.interfaceIndexes(func(n *v1.Interface) bool { return n.SRIOV != nil && !g.LockedMemory })
	}},
	// A device plugin does not say which of several devices is for which network.
	{"domain.devices.interfaces[].sriov", Refused,
		"needs a NetworkAttachmentDefinition with a resource (" + AnnotationResource + ") that no other device of the guest has",
		func(g guest) []int {
			if !g.hasVirtualFunctions() {
				return nil
			}
			devices := g.countDevices()
			return g.interfaceIndexes(func(n *v1.Interface) bool { return n.SRIOV != nil && !g.hasIdentifiableDevice(n, devices) })
		}},
	{"networks[].multus.networkName", Refused,
		"names a NetworkAttachmentDefinition whose annotation " + AnnotationResource + " is not a resource of a device plugin",
		func(g guest) []int {
			return indexesOf(g.spec.Networks, func(n *v1.Network) bool {
				resource := g.resourceOf(n)
				return resource != "" && !isExtendedResource(resource)
			})
		}},
	{"networks[].resourceClaim", Refused, "is a device of a claim, which only sriov connects to a guest", func(g guest) []int {
		return indexesOf(g.spec.Networks, func(n *v1.Network) bool {
			nic := g.nicOf(n.Name)
			return n.ResourceClaim != nil && (nic == nil || nic.SRIOV == nil)
		})
	}},
}

// networkNamed returns a network of the VMI; nil if it has none of the name.
func (g guest) networkNamed(name string) *v1.Network {
	i := slices.IndexFunc(g.spec.Networks, func(n v1.Network) bool { return n.Name == name })
	if i < 0 {
		return nil
	}
	return &g.spec.Networks[i]
}

// resourceOf returns the resource of a network that has an interface; empty if its NetworkAttachmentDefinition names none.
func (g guest) resourceOf(n *v1.Network) string {
	if n == nil || !HasDefinition(n) || g.nicOf(n.Name) == nil {
		return ""
	}
	return g.NetworkResources[n.Multus.NetworkName]
}

// networkResources returns the resource of each of the guest's networks that has one. A resource occurs as often as networks have it. KubeVirt requests
// resources for all bindings, too: the resource of a bridge says which nodes have the bridge.
func (g guest) networkResources() (names []corev1.ResourceName) {
	for i := range g.spec.Networks {
		if resource := g.resourceOf(&g.spec.Networks[i]); resource != "" {
			names = append(names, corev1.ResourceName(resource))
		}
	}
	return names
}

// countDevices counts the devices of each resource that the pod has. domain.resources of the VMI is copied into the pod, whatever it names.
func (g guest) countDevices() map[corev1.ResourceName]int {
	count := map[corev1.ResourceName]int{}
	for _, name := range slices.Concat(g.networkResources(), g.hostDeviceNames()) {
		count[name]++
	}
	own := g.spec.Domain.Resources
	for _, list := range []corev1.ResourceList{own.Requests, own.Limits} {
		for name := range list {
			count[name]++
		}
	}
	return count
}

// hasIdentifiableDevice reports whether the launcher can tell which device an interface with sriov has: the pod has one device of its resource. It is true for
// a NetworkAttachmentDefinition that does not exist, because missingNetworks reports it.
func (g guest) hasIdentifiableDevice(nic *v1.Interface, devices map[corev1.ResourceName]int) bool {
	network := g.networkNamed(nic.Name)
	switch {
	case network == nil:
		return false
	case network.ResourceClaim != nil:
		return true
	case !HasDefinition(network):
		return false
	}
	resource, known := g.NetworkResources[network.Multus.NetworkName]
	return !known || resource != "" && devices[corev1.ResourceName(resource)] == 1
}

// hasVirtualFunctions reports whether an interface of the guest is one.
func (g guest) hasVirtualFunctions() bool {
	return len(g.interfaceIndexes(func(n *v1.Interface) bool { return n.SRIOV != nil })) > 0
}

// missingNetworks are the NetworkAttachmentDefinitions that do not exist: kubelet would try to start the pod again and again.
func (g guest) missingNetworks() (errs field.ErrorList) {
	for i := range g.spec.Networks {
		n := &g.spec.Networks[i]
		if !HasDefinition(n) || g.nicOf(n.Name) == nil {
			continue
		}
		if _, known := g.NetworkResources[n.Multus.NetworkName]; !known {
			at := g.path.Child("networks").Index(i).Child("multus", "networkName")
			errs = append(errs, field.NotFound(at, n.Multus.NetworkName).WithOrigin(RuleNetworkMissing))
		}
	}
	return errs
}

// RuleNetworkMissing is the origin of errors about NetworkAttachmentDefinitions that do not exist.
const RuleNetworkMissing = "pod/network-missing"

// networkVariables tell the launcher the resource of each interface with sriov.
func (g guest) networkVariables() (list []corev1.EnvVar) {
	for i := range g.spec.Domain.Devices.Interfaces {
		nic := &g.spec.Domain.Devices.Interfaces[i]
		if resource := g.resourceOf(g.networkNamed(nic.Name)); nic.SRIOV != nil && resource != "" {
			list = append(list, corev1.EnvVar{Name: EnvNetworkResource + nic.Name, Value: resource})
		}
	}
	return list
}

// isExtendedResource reports whether a device plugin can have a resource of this name. A user who may write a NetworkAttachmentDefinition chooses the name. If
// it is the name of a GPU, the pod requests the GPU and no guest gets it. cpu and memory are refused, because they would change the size of the pod.
func isExtendedResource(resource string) bool {
	domain, _, found := strings.Cut(resource, "/")
	return found && domain != "kubernetes.io" && !strings.HasSuffix(domain, ".kubernetes.io") && !strings.HasPrefix(resource, "requests.") &&
		len(content.IsLabelKey("requests."+resource)) == 0
}
