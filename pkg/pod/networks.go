package pod

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/hardware"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	v1 "kubevirt.io/api/core/v1"
)

// Fields: networks, domain.devices.interfaces. Networks of Multus are in networks_multus.go, virtual functions in networks_sriov.go.
// A restricted pod cannot make a bridge, a tap or NAT. On its default network the guest is served by a process: passt, which gives it the pod's addresses,
// or QEMU's NAT, whichever of bridge, masquerade and passtBinding the interface has. All three show the guest the same network card.

// passt ends without serving the guest if it cannot bind a port that is named by itself, and leaves one out of a range.
var (
	launcherPortReason  = fmt.Sprintf("has TCP port %d, at which the launcher in the pod serves console and display: leave it out", v1alpha1.LauncherPort)
	launcherRangeReason = fmt.Sprintf("does not forward TCP port %d, which is the launcher's", v1alpha1.LauncherPort)
)

// isTCP reports whether a protocol is TCP, which is the API's default.
func isTCP(protocol string) bool {
	return protocol == "" || strings.EqualFold(protocol, string(corev1.ProtocolTCP))
}

var networkEffects = []Effect{
	{"domain.devices.interfaces[].binding", Refused, "names a plugin of KubeVirt's, which pods do not run: use masquerade on the pod network",
		func(g guest) []int {
			return g.interfaceIndexes(func(n *v1.Interface) bool { return n.Binding != nil })
		}},
	{"domain.devices.interfaces[].bridge", Refused,
		"needs a tap device on this network: the administrator must let the CNI plugins of pods make it, and declare it",
		func(g guest) []int {
			return g.interfaceIndexes(func(n *v1.Interface) bool { return n.Bridge != nil && !g.onPodNetwork(n) && !g.Taps })
		}},
	{"domain.devices.networkInterfaceMultiqueue", Refused, "needs a tap device: an interface on the pod network has one queue", func(g guest) []int {
		nic := g.podNIC()
		queues := ptr.Deref(g.spec.Domain.Devices.NetworkInterfaceMultiQueue, false) && g.vcpuCount() > 1
		return onlyIf(queues && nic != nil && isVirtio(nic))
	}},
	{"domain.devices.interfaces[].ports", Refused, launcherPortReason, func(g guest) []int {
		return g.interfaceIndexes(func(n *v1.Interface) bool {
			return g.usesPasst() && g.onPodNetwork(n) &&
				slices.ContainsFunc(n.Ports, func(p v1.Port) bool { return p.Port == v1alpha1.LauncherPort && isTCP(p.Protocol) })
		})
	}},
	{"domain.devices.interfaces[].portRanges", Warned, launcherRangeReason, func(g guest) []int {
		return g.interfaceIndexes(func(n *v1.Interface) bool {
			return g.usesPasst() && g.onPodNetwork(n) && slices.ContainsFunc(n.PortRanges, func(p v1.PortRange) bool {
				return p.Start <= v1alpha1.LauncherPort && v1alpha1.LauncherPort <= p.End && isTCP(p.Protocol)
			})
		})
	}},
	{"domain.devices.interfaces[].ports", Warned, "has no effect: nothing reaches a guest whose network is slirp", func(g guest) []int {
		return g.interfaceIndexes(func(n *v1.Interface) bool { return len(n.Ports) > 0 && g.onPodNetwork(n) && g.Network == Slirp })
	}},
	{"domain.devices.interfaces[].portRanges", Warned, "has no effect: nothing reaches a guest whose network is slirp", func(g guest) []int {
		return g.interfaceIndexes(func(n *v1.Interface) bool { return len(n.PortRanges) > 0 && g.onPodNetwork(n) && g.Network == Slirp })
	}},
	{"domain.devices.interfaces[].dhcpOptions", Warned, "has no effect: the DHCP server of the pod network has no such options",
		func(g guest) []int {
			return g.interfaceIndexes(func(n *v1.Interface) bool { return n.DHCPOptions != nil })
		}},
	{"domain.devices.interfaces[].tag", Warned, tagReason, func(g guest) []int {
		return g.interfaceIndexes(func(n *v1.Interface) bool { return n.Tag != "" })
	}},
	{"networks[].pod.vmNetworkCIDR", Warned, "has no effect: passt gives the guest the address of the pod, slirp its own", func(g guest) []int {
		return indexesOf(g.spec.Networks, func(n *v1.Network) bool { return n.Pod != nil && n.Pod.VMNetworkCIDR != "" })
	}},
	{"networks[].pod.vmIPv6NetworkCIDR", Warned, "has no effect: passt gives the guest the address of the pod, slirp its own",
		func(g guest) []int {
			return indexesOf(g.spec.Networks, func(n *v1.Network) bool { return n.Pod != nil && n.Pod.VMIPv6NetworkCIDR != "" })
		}},
}

// interfaceIndexes returns the indexes of interfaces that are present and for which a condition holds.
func (g guest) interfaceIndexes(holds func(*v1.Interface) bool) []int {
	present := func(n *v1.Interface) bool { return n.State != v1.InterfaceStateAbsent && holds(n) }
	return indexesOf(g.spec.Domain.Devices.Interfaces, present)
}

// onPodNetwork reports whether an interface is on the default network of the pod: the network of the cluster, or a network of Multus in its place.
func (g guest) onPodNetwork(nic *v1.Interface) bool {
	for i := range g.spec.Networks {
		if n := &g.spec.Networks[i]; n.Name == nic.Name {
			return n.Pod != nil || n.Multus != nil && n.Multus.Default
		}
	}
	return false
}

// podNIC returns the interface on the default network of the pod; nil without one. Admission allows one.
func (g guest) podNIC() *v1.Interface {
	for i := range g.spec.Domain.Devices.Interfaces {
		if nic := &g.spec.Domain.Devices.Interfaces[i]; nic.State != v1.InterfaceStateAbsent && g.onPodNetwork(nic) {
			return nic
		}
	}
	return nil
}

// usesPasst reports whether passt serves the guest.
func (g guest) usesPasst() bool { return g.Network == Passt && g.podNIC() != nil }

// allPorts reports whether passt may have a socket for each port: an interface without ports forwards all. KubeVirt counts so for every passtBinding.
func (g guest) allPorts() bool {
	nic := g.podNIC()
	return nic != nil && (nic.PasstBinding != nil || g.Network == Passt && len(nic.Ports)+len(nic.PortRanges) == 0)
}

func isVirtio(nic *v1.Interface) bool { return hardware.Model(nic.Model).Virtio }

// containerPorts returns the named ports of the guest, which Services find by their names.
func (g guest) containerPorts() (list []corev1.ContainerPort) {
	nic := g.podNIC()
	if nic == nil || g.Network == Slirp {
		return nil
	}
	for _, port := range nic.Ports {
		protocol := corev1.Protocol(cmp.Or(port.Protocol, string(corev1.ProtocolTCP)))
		list = append(list, corev1.ContainerPort{Name: port.Name, ContainerPort: port.Port, Protocol: protocol})
	}
	return list
}

// selectPasstNodes adds the label of nodes that have the seccomp profile for passt.
func (g guest) selectPasstNodes(selector map[string]string) {
	if g.usesPasst() {
		selector[v1alpha1.LabelPasst] = "true"
	}
}
