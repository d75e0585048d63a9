package pod

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	v1 "kubevirt.io/api/core/v1"
)

// Fields: domain.devices.gpus, domain.devices.hostDevices, resourceClaims.
// A device comes from a device plugin by its resource name, or from a claim of dynamic resource allocation. PCI and mediated devices read and write the
// guest's memory, which VFIO locks for them.

var hostDeviceEffects = []Effect{
	{"domain.devices.gpus[].deviceName", Refused, forbiddenReason, func(g guest) []int {
		return indexesOf(g.spec.Domain.Devices.GPUs, func(d *v1.GPU) bool { return g.isForbidden(d.DeviceName) })
	}},
	{"domain.devices.hostDevices[].deviceName", Refused, forbiddenReason, func(g guest) []int {
		return indexesOf(g.spec.Domain.Devices.HostDevices, func(d *v1.HostDevice) bool { return g.isForbidden(d.DeviceName) })
	}},
	{"domain.devices.gpus[]", Refused, lockedReason, func(g guest) []int {
		return indexesOf(g.spec.Domain.Devices.GPUs, func(d *v1.GPU) bool { return g.lacksLockedMemory(d.DeviceName) })
	}},
	{"domain.devices.hostDevices[]", Refused, lockedReason, func(g guest) []int {
		return indexesOf(g.spec.Domain.Devices.HostDevices, func(d *v1.HostDevice) bool { return g.lacksLockedMemory(d.DeviceName) })
	}},
	{"domain.devices.gpus[].tag", Warned, tagReason, func(g guest) []int {
		return indexesOf(g.spec.Domain.Devices.GPUs, func(d *v1.GPU) bool { return d.Tag != "" })
	}},
	{"domain.devices.hostDevices[].tag", Warned, tagReason, func(g guest) []int {
		return indexesOf(g.spec.Domain.Devices.HostDevices, func(d *v1.HostDevice) bool { return d.Tag != "" })
	}},
}

const forbiddenReason = "is not among permittedHostDevices of KubeVirt's configuration: choose one of them, or ask the administrator"

// isForbidden reports whether the configuration lists permitted devices and this resource is not among them. KubeVirt reports it when it makes the pod, too.
func (g guest) isForbidden(resource string) bool {
	permitted := g.PermittedHostDevices
	if permitted == nil || resource == "" {
		return false
	}
	return !slices.ContainsFunc(permitted.PciHostDevices, func(d v1.PciHostDevice) bool { return d.ResourceName == resource }) &&
		!slices.ContainsFunc(permitted.MediatedDevices, func(d v1.MediatedHostDevice) bool { return d.ResourceName == resource }) &&
		!g.isUSB(resource)
}

// isUSB reports whether a resource is of USB devices.
func (g guest) isUSB(resource string) bool {
	return g.PermittedHostDevices != nil &&
		slices.ContainsFunc(g.PermittedHostDevices.USB, func(d v1.USBHostDevice) bool { return d.ResourceName == resource })
}

// lacksLockedMemory reports whether a device, or a device of a claim if the resource is empty, needs locked memory that the nodes do not give. Only USB devices
// are known not to.
func (g guest) lacksLockedMemory(resource string) bool { return !g.LockedMemory && !g.isUSB(resource) }

// hostDeviceNames are the resources of device plugins, as often as the VMI has them.
func (g guest) hostDeviceNames() (names []corev1.ResourceName) {
	for _, d := range g.spec.Domain.Devices.GPUs {
		if d.DeviceName != "" {
			names = append(names, corev1.ResourceName(d.DeviceName))
		}
	}
	for _, d := range g.spec.Domain.Devices.HostDevices {
		if d.DeviceName != "" {
			names = append(names, corev1.ResourceName(d.DeviceName))
		}
	}
	return names
}

// claimRequests are the devices of claims, each once: kubelet gives a container what it names, however often.
func (g guest) claimRequests() (list []corev1.ResourceClaim) {
	add := func(claim *v1.ClaimRequest) {
		if claim == nil || claim.ClaimName == "" {
			return
		}
		request := corev1.ResourceClaim{Name: claim.ClaimName, Request: claim.RequestName}
		if !slices.Contains(list, request) { // Kubernetes refuses a pair that is listed twice
			list = append(list, request)
		}
	}
	for _, d := range g.spec.Domain.Devices.GPUs {
		add(d.ClaimRequest)
	}
	for _, d := range g.spec.Domain.Devices.HostDevices {
		add(d.ClaimRequest)
	}
	for _, n := range g.spec.Networks {
		if nic := g.nicOf(n.Name); nic != nil && nic.SRIOV != nil {
			add(n.ResourceClaim)
		}
	}
	return list
}

// resourceClaims returns the resource claims of the pod.
func (g guest) resourceClaims() (list []corev1.PodResourceClaim) {
	for _, claim := range g.spec.ResourceClaims {
		list = append(list, corev1.PodResourceClaim{
			Name: claim.Name, ResourceClaimName: claim.ResourceClaimName, ResourceClaimTemplateName: claim.ResourceClaimTemplateName})
	}
	return list
}
