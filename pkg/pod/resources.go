package pod

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Fields: domain.resources. The container has the requests and limits of the VMI; CPUs, memory and devices of the guest are added.

// ephemeralOverhead is KubeVirt's request of ephemeral storage besides the VMI's: what libvirt and the launcher write. Without a limit of the VMI's the
// pod has none: overlays and emptyDisks are as large as their disks at most.
var ephemeralOverhead = resource.MustParse("50M")

// containerResources returns what the container asks of its node.
func (g guest) containerResources() corev1.ResourceRequirements {
	own := g.spec.Domain.Resources
	r := corev1.ResourceRequirements{Requests: corev1.ResourceList{}, Limits: corev1.ResourceList{}, Claims: g.claimRequests()}
	maps.Copy(r.Requests, own.Requests)
	maps.Copy(r.Limits, own.Limits)
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage} {
		if limit := r.Limits[name]; limit.IsZero() {
			delete(r.Limits, name) // KubeVirt reads a limit of 0 as none; of a pod it would be below the request
		}
	}
	g.addMemory(&r)
	g.addCPUs(&r)
	r.Requests[corev1.ResourceEphemeralStorage] = addQuantities(r.Requests[corev1.ResourceEphemeralStorage], ephemeralOverhead)
	if limit, set := r.Limits[corev1.ResourceEphemeralStorage]; set {
		r.Limits[corev1.ResourceEphemeralStorage] = addQuantities(limit, ephemeralOverhead)
	}
	one := *resource.NewQuantity(1, resource.DecimalSI)
	for _, name := range g.deviceNames() {
		r.Requests[name], r.Limits[name] = one, one
	}
	for _, name := range slices.Concat(g.hostDeviceNames(), g.networkResources()) {
		r.Limits[name] = addQuantities(r.Limits[name], one)
		r.Requests[name] = r.Limits[name] // of a device both are one number
	}
	return r
}

// isLimitDemanded reports whether a ResourceQuota of the namespace refuses pods without a limit of the resource.
func (g guest) isLimitDemanded(name corev1.ResourceName) bool {
	return slices.Contains(g.LimitsDemanded, name)
}
