package mutate

import (
	"github.com/kilnvm/kiln/pkg/config"
	corev1 "k8s.io/api/core/v1"
	v1 "kubevirt.io/api/core/v1"
)

// Fields: domain.resources.requests.cpu.
// A limit without a request is the request. Without either the cluster's CPU request is, if it has one: but not for
// dedicated CPUs, whose number is the topology's.
func cpuRequest(vmi *v1.VirtualMachineInstance, d config.Defaults) {
	resources := &vmi.Spec.Domain.Resources
	if _, set := resources.Requests[corev1.ResourceCPU]; set {
		return
	}
	request := resources.Limits[corev1.ResourceCPU]
	if request.IsZero() { // a limit of nothing is none to Kubernetes
		dedicated := vmi.Spec.Domain.CPU != nil && vmi.Spec.Domain.CPU.DedicatedCPUPlacement
		if dedicated || d.CPURequest == nil {
			return
		}
		request = *d.CPURequest
	}
	if resources.Requests == nil {
		resources.Requests = corev1.ResourceList{}
	}
	resources.Requests[corev1.ResourceCPU] = request.DeepCopy()
}
