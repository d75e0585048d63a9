package mutate

import (
	"github.com/kilnvm/kiln/pkg/config"
	corev1 "k8s.io/api/core/v1"
	v1 "kubevirt.io/api/core/v1"
)

// Fields: domain.resources.requests.cpu.

// cpuRequest is setDefaultResourceRequests: requests.cpu is limits.cpu, else the cluster's cpuRequest. Dedicated CPUs get no cpuRequest,
// because the topology has their number. Trap: KubeVirt overwrites a request of 0 with the limit; Kiln keeps it.
func cpuRequest(vmi *v1.VirtualMachineInstance, d config.Defaults) {
	resources := &vmi.Spec.Domain.Resources
	if _, set := resources.Requests[corev1.ResourceCPU]; set {
		return
	}
	request := resources.Limits[corev1.ResourceCPU]
	if request.IsZero() { // Kubernetes reads a limit of 0 as no limit
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
