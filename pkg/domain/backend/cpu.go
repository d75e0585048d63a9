package backend

import (
	"fmt"
	"strconv"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"libvirt.org/go/libvirtxml"
)

// Elements: cputune. API fields: domain.cpu.dedicatedCpuPlacement, isolateEmulatorThread.

// cpuTune pins each vCPU that the guest starts with to a CPU of its own, in the order in which the host gave them, and the
// emulator to one more where it is isolated.
func (h *host) cpuTune() *libvirtxml.DomainCPUTune {
	spec := h.spec.Domain.CPU
	if spec == nil || !spec.DedicatedCPUPlacement {
		return nil
	}
	vcpus := int(h.Frontend.VCPU.Value)
	if h.Frontend.VCPU.Current > 0 {
		vcpus = int(h.Frontend.VCPU.Current)
	}
	needed := vcpus
	if spec.IsolateEmulatorThread {
		needed++
	}
	if len(h.Bindings.CPUs) < needed {
		h.fail(field.Invalid(h.domain.Child("cpu", "dedicatedCpuPlacement"), true,
			fmt.Sprintf("the guest needs %d CPUs of its own, %s has bound %d", needed, h.node(), len(h.Bindings.CPUs))))
		return nil
	}
	out := &libvirtxml.DomainCPUTune{}
	for i := range vcpus {
		out.VCPUPin = append(out.VCPUPin, libvirtxml.DomainCPUTuneVCPUPin{VCPU: uint(i), CPUSet: strconv.Itoa(h.Bindings.CPUs[i])})
	}
	if spec.IsolateEmulatorThread {
		out.EmulatorPin = &libvirtxml.DomainCPUTuneEmulatorPin{CPUSet: strconv.Itoa(h.Bindings.CPUs[vcpus])}
	}
	return out
}
