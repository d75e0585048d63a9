package vmistatus

import (
	"cmp"
	"slices"

	"github.com/kilnvm/kiln/internal/condition"
	"github.com/kilnvm/kiln/internal/vmipod/podinput"
	"github.com/kilnvm/kiln/pkg/identity"
	"github.com/kilnvm/kiln/pkg/pod"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	v1 "kubevirt.io/api/core/v1"
)

const (
	// runtimeUser is the user ID of a launcher and of QEMU in its pod.
	runtimeUser = 107
	// podInterface is the name that CNI gives to the interface of a pod on the pod network.
	podInterface = "eth0"
)

// SetCreated writes the pod that was created from the input into the status of its VMI.
func SetCreated(vmi *v1.VirtualMachineInstance, in pod.Input, created *corev1.Pod) {
	vmi.Status.Interfaces, vmi.Status.VolumeStatus = interfaceStatuses(in), volumeStatuses(in)
	setPod(vmi, created)
	condition.SetPhase(vmi, v1.Scheduling)
	condition.Clear(vmi, v1.VirtualMachineInstanceSynchronized) // it reported why there was no pod
}

// setPod writes what the status says about the pod, unless the status has another pod.
func setPod(vmi *v1.VirtualMachineInstance, pod *corev1.Pod) {
	status := &vmi.Status
	if _, found := status.ActivePods[pod.UID]; !found && len(status.ActivePods) > 0 {
		return
	}
	node := pod.Spec.NodeName
	if status.ActivePods == nil || status.ActivePods[pod.UID] != node {
		status.ActivePods = map[types.UID]string{pod.UID: node}
	}
	status.NodeName = cmp.Or(status.NodeName, node)
	status.RuntimeUser = runtimeUser
	if class := pod.Status.QOSClass; class != "" {
		status.QOSClass = &class
	}
	if len(pod.Spec.Containers) > 0 { // a pod of the cache has no containers
		status.LauncherContainerImageVersion = pod.Spec.Containers[0].Image
	}
	if len(status.Interfaces) > 0 && status.Interfaces[0].PodInterfaceName == podInterface && len(pod.Status.PodIPs) > 0 {
		ips := make([]string, len(pod.Status.PodIPs))
		for i, ip := range pod.Status.PodIPs {
			ips[i] = ip.IP
		}
		if !slices.Equal(status.Interfaces[0].IPs, ips) {
			status.Interfaces = slices.Clone(status.Interfaces)
			status.Interfaces[0].IP, status.Interfaces[0].IPs = ips[0], ips
		}
	}
}

// interfaceStatuses returns status.interfaces of a VMI, with the MAC addresses of the hardware record, or with the MAC addresses that stage 2 will assign. The
// interface on the pod network is the first one, because 'kubectl get vmi' prints the first one. With slirp it has no addresses: the guest cannot be reached at
// the addresses of the pod.
func interfaceStatuses(in pod.Input) (nics []v1.VirtualMachineInstanceNetworkInterface) {
	vmi := in.VMI.DeepCopy()
	if in.Record != nil {
		identity.Recall(vmi, in.Record)
	}
	identity.Fill(vmi, identity.Seed(vmi))
	for _, spec := range vmi.Spec.Domain.Devices.Interfaces {
		i := slices.IndexFunc(vmi.Spec.Networks, func(n v1.Network) bool { return n.Name == spec.Name })
		if i < 0 || spec.State == v1.InterfaceStateAbsent {
			continue
		}
		network, nic := vmi.Spec.Networks[i], v1.VirtualMachineInstanceNetworkInterface{Name: spec.Name, MAC: spec.MacAddress, InfoSource: infoDomain}
		if network.ResourceClaim != nil { // a device of the guest, and not an interface of the pod
			nics = append(nics, nic)
			continue
		}
		if network.Multus != nil && !network.Multus.Default {
			nic.PodInterfaceName = pod.PodInterface(network.Name)
			nics = append(nics, nic)
			continue
		}
		if in.Network != pod.Slirp {
			nic.PodInterfaceName = podInterface
		}
		nics = slices.Insert(nics, 0, nic)
	}
	return nics
}

// volumeStatuses returns status.volumeStatus of a VMI with its claims. The launcher reads the sizes of disks there: without them it would make a disk as large
// as the file system of the claim.
func volumeStatuses(in pod.Input) (list []v1.VolumeStatus) {
	for i := range in.VMI.Spec.Volumes {
		volume := &in.VMI.Spec.Volumes[i]
		if claim, found := in.Claims[podinput.ClaimName(volume)]; found {
			list = append(list, v1.VolumeStatus{Name: volume.Name, PersistentVolumeClaimInfo: &claim.Info})
		}
	}
	return list
}
