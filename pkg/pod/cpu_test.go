package pod

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// amount is what a list says of a resource, '-' if nothing.
func amount(list corev1.ResourceList, name corev1.ResourceName) string {
	q, set := list[name]
	if !set {
		return "-"
	}
	return q.String()
}

func TestCPUs(t *testing.T) {
	for _, test := range []struct {
		why, spec      string
		with           func(*Input)
		request, limit string
	}{
		{"a tenth of each vCPU", "", nil, "200m", "-"},
		{"a part of a thousandth is a whole one", "", func(in *Input) { in.CPUAllocationRatio = 3 }, "667m", "-"},
		{"no overcommit", "", func(in *Input) { in.CPUAllocationRatio = 1 }, "2", "-"},
		{"sockets, cores and threads", "domain: {cpu: {sockets: 2, cores: 3, threads: 2}}", nil, "1200m", "-"},
		{"IO threads of a pool run too", "domain: {ioThreadsPolicy: supplementalPool, ioThreads: {supplementalPoolThreadCount: 3}}", nil, "500m", "-"},
		{"a count without the policy has no effect", "domain: {ioThreads: {supplementalPoolThreadCount: 3}}", nil, "200m", "-"},
		{"what the VMI sets", "domain: {resources: {requests: {cpu: 1500m}, limits: {cpu: '3'}}}", nil, "1500m", "3"},
		{"a limit below the request of KubeVirt", "domain: {resources: {limits: {cpu: 100m}}}", nil, "100m", "100m"},
		{"a limit of 0 does not count", "domain: {resources: {limits: {cpu: '0'}}}", nil, "200m", "-"},
		{"a quota", "", quota, "200m", "2"},
		{"a quota, and a request above all vCPUs", "domain: {resources: {requests: {cpu: '3'}}}", quota, "3", "3"},
		{"a quota, and a limit", "domain: {resources: {limits: {cpu: 1500m}}}", quota, "200m", "1500m"},
		{"whole CPUs", "domain: {cpu: {dedicatedCpuPlacement: true}}", nil, "2", "2"},
		{"whole CPUs, whatever is requested", "domain: {cpu: {dedicatedCpuPlacement: true}, resources: {requests: {cpu: 500m}}}", nil, "2", "2"},
		{"one more for the emulator", "domain: {cpu: {dedicatedCpuPlacement: true, isolateEmulatorThread: true}}", nil, "3", "3"},
		{"an even number", "domain: {cpu: {dedicatedCpuPlacement: true, isolateEmulatorThread: true}}", even, "4", "4"},
		{"a number that is even with one", "domain: {cpu: {sockets: 3, dedicatedCpuPlacement: true, isolateEmulatorThread: true}}", even, "4", "4"},
		{"and for the pool", "domain: {cpu: {dedicatedCpuPlacement: true}, ioThreadsPolicy: supplementalPool, ioThreads: {supplementalPoolThreadCount: 2}}",
			nil, "4", "4"},
	} {
		t.Run(test.why, func(t *testing.T) {
			in := input(t, test.spec)
			if test.with != nil {
				test.with(&in)
			}
			r := container(t, in).Resources
			if request, limit := amount(r.Requests, corev1.ResourceCPU), amount(r.Limits, corev1.ResourceCPU); request != test.request || limit != test.limit {
				t.Errorf("got %s of %s, want %s of %s", request, limit, test.request, test.limit)
			}
			if strings.Contains(test.spec, "dedicated") {
				if request, limit := amount(r.Requests, corev1.ResourceMemory), amount(r.Limits, corev1.ResourceMemory); request != limit {
					t.Errorf("kubelet gives CPUs to Guaranteed pods alone: memory %s of %s", request, limit)
				}
			}
		})
	}
}

func quota(in *Input) {
	in.LimitsDemanded = []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory}
}

func even(in *Input) {
	in.VMI.Annotations = map[string]string{"alpha.kubevirt.io/EmulatorThreadCompleteToEvenParity": ""}
}
