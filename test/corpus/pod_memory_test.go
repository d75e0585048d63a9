package corpus

import (
	"github.com/kilnvm/kiln/pkg/pod"
	corev1 "k8s.io/api/core/v1"
	v1 "kubevirt.io/api/core/v1"
)

// kubevirtOverhead is KubeVirt's memory overhead of a VMI in MiB (GetMemoryOverhead of its package hypervisor/kvm, and pkg/network/resources, v1.9), page
// tables left out.
func kubevirtOverhead(vmi *v1.VirtualMachineInstance) int64 {
	const monitor, launcher, virtlogd, virtqemud, qemu, ioThread = 25, 100, 25, 40, 50, 8
	domain, devices := vmi.Spec.Domain, vmi.Spec.Domain.Devices
	vcpus := int64(max(domain.CPU.Sockets, 1)) * int64(max(domain.CPU.Cores, 1)) * int64(max(domain.CPU.Threads, 1))
	sum := monitor + launcher + virtlogd + virtqemud + qemu + ioThread + 8*vcpus
	add := func(holds bool, more int64) {
		if holds {
			sum += more
		}
	}
	add(devices.AutoattachGraphicsDevice == nil || *devices.AutoattachGraphicsDevice, 32)
	add(vmi.Spec.Architecture == "arm64", 128)
	add(len(devices.GPUs)+len(devices.HostDevices) > 0, 1024)
	live, ready := vmi.Spec.LivenessProbe, vmi.Spec.ReadinessProbe
	add(live != nil && live.Exec != nil, 10)
	add(ready != nil && ready.Exec != nil, 10)
	add(live != nil && live.Exec != nil || ready != nil && ready.Exec != nil, 100)
	add(domain.LaunchSecurity != nil && (domain.LaunchSecurity.SEV != nil || domain.LaunchSecurity.SNP != nil), 256)
	add(devices.TPM != nil && (devices.TPM.Enabled == nil || *devices.TPM.Enabled), 53)
	add(vmi.IsCPUDedicated() || vmi.WantsToHaveQOSGuaranteed(), 100)
	for _, nic := range devices.Interfaces {
		if nic.PasstBinding != nil {
			sum += 250
			break
		}
	}
	return sum
}

// kubevirtMemory is the memory that KubeVirt's pod of a VMI requests, and the limit, 0 without one.
func kubevirtMemory(vmi *v1.VirtualMachineInstance) (request, limit int64) {
	domain := vmi.Spec.Domain
	own, guest := domain.Resources, domain.Memory.Guest.Value()
	overhead := kubevirtOverhead(vmi)<<20 + own.Requests.Memory().Value()/512
	if reserved := domain.Memory.ReservedOverhead; reserved != nil && reserved.AddedOverhead != nil {
		overhead += reserved.AddedOverhead.Value()
	}
	request, limit = own.Requests.Memory().Value(), own.Limits.Memory().Value()
	if request == 0 {
		request = max(limit, 0)
	}
	if request == 0 {
		request = guest
	}
	if vmi.IsCPUDedicated() {
		limit = request
	}
	limited := limit > 0
	if domain.Memory.Hugepages != nil {
		request, limit = max(request-guest, 0)+overhead, max(limit-guest, 0)+overhead
	} else {
		limit += overhead
		if !own.OvercommitGuestOverhead {
			request += overhead
		}
	}
	if !limited {
		limit = 0
	}
	return request, limit
}

// enoughMemory demands that a pod has at least what KubeVirt gives the same VMI, and a limit where KubeVirt's has one.
func enoughMemory(in pod.Input, made *corev1.Pod) (broken findings) {
	resources := made.Spec.Containers[0].Resources
	request, limit := kubevirtMemory(in.VMI)
	if got := resources.Requests.Memory().Value(); got < request {
		broken.add("a pod requests no less memory than KubeVirt's", "%d of %d", got, request)
	}
	if got := resources.Limits.Memory().Value(); got < limit || limit == 0 && got > 0 && len(in.LimitsDemanded) == 0 {
		broken.add("a pod's memory limit is KubeVirt's or more", "%d of %d", got, limit)
	}
	return broken
}
