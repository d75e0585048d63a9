package pod

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// Fields: domain.devices but disks, interfaces and host devices.
// Files of /dev come from a device plugin, under KubeVirt's resource names. A restricted pod has none by itself.

// Resources of the device plugin.
const (
	resourceKVM   corev1.ResourceName = "devices.kubevirt.io/kvm"
	resourceTun   corev1.ResourceName = "devices.kubevirt.io/tun"
	resourceVhost corev1.ResourceName = "devices.kubevirt.io/vhost-net"
	resourceVsock corev1.ResourceName = "devices.kubevirt.io/vhost-vsock"
	resourceSEV   corev1.ResourceName = "devices.kubevirt.io/sev"
)

var deviceEffects = []Effect{
	{"domain.devices.downwardMetrics", Warned, "has no effect: restricted pods cannot read the metrics of the node", func(g guest) []int {
		return onlyIf(g.spec.Domain.Devices.DownwardMetrics != nil)
	}},
	{"domain.devices.clientPassthrough", Warned, "has no effect: no client can bring USB devices", func(g guest) []int {
		return onlyIf(g.spec.Domain.Devices.ClientPassthrough != nil)
	}},
}

// deviceNames are the resources that the container needs one of.
func (g guest) deviceNames() (names []corev1.ResourceName) {
	if !g.Emulate {
		names = append(names, resourceKVM)
	}
	if g.hasTaps() {
		names = append(names, resourceTun)
		if !g.Emulate && g.usesVhost() {
			names = append(names, resourceVhost)
		}
	}
	if ptr.Deref(g.spec.Domain.Devices.AutoattachVSOCK, false) {
		names = append(names, resourceVsock)
	}
	if g.hasSEV() {
		names = append(names, resourceSEV)
	}
	return names
}
