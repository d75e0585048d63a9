package backend

import (
	"strconv"

	"k8s.io/utils/cpuset"
	"libvirt.org/go/libvirtxml"
)

// Elements: cputune. API fields: domain.cpu.dedicatedCpuPlacement, isolateEmulatorThread. Which CPUs is in cpu_pinning.go.

func (h *host) cpuTune() *libvirtxml.DomainCPUTune {
	if h.pins == nil {
		return nil
	}
	out := &libvirtxml.DomainCPUTune{IOThreadPin: h.ioThreadPins()}
	for i, cpu := range h.pins.vcpus {
		out.VCPUPin = append(out.VCPUPin, libvirtxml.DomainCPUTuneVCPUPin{VCPU: uint(i), CPUSet: strconv.Itoa(cpu)})
	}
	if len(h.pins.emulator) > 0 {
		out.EmulatorPin = &libvirtxml.DomainCPUTuneEmulatorPin{CPUSet: cpuset.New(h.pins.emulator...).String()}
	}
	return out
}
