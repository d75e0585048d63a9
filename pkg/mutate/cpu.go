package mutate

import (
	"slices"

	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/internal/vm"
	corev1 "k8s.io/api/core/v1"
	v1 "kubevirt.io/api/core/v1"
)

// Fields: domain.cpu (cores, sockets, threads, model, maxSockets, the vmx feature), annotation for emulator thread parity.

// topology spells out all three counts of a guest that gives none: as many sockets as its pod's CPU limit or request, rounded
// up. One that gives some has said all: the API's meaning of a count left out beside another is 1.
func topology(vmi *v1.VirtualMachineInstance, _ config.Defaults) {
	domain := &vmi.Spec.Domain
	if domain.CPU == nil {
		domain.CPU = &v1.CPU{}
	}
	cpu := domain.CPU
	if sockets, _, _ := vm.Topology(cpu); sockets != 0 {
		return
	}
	count, found := domain.Resources.Limits[corev1.ResourceCPU]
	if !found {
		count = domain.Resources.Requests[corev1.ResourceCPU]
	}
	cpu.Sockets, cpu.Cores, cpu.Threads = uint32(max(count.Value(), 1)), 1, 1
}

// cpuModel is the cluster's. On arm64 only the host's own CPU works.
func cpuModel(vmi *v1.VirtualMachineInstance, d config.Defaults) {
	cpu := vmi.Spec.Domain.CPU
	switch {
	case cpu.Model != "":
	case vmi.Spec.Architecture == "arm64":
		cpu.Model = v1.CPUModeHostPassthrough
	default:
		cpu.Model = d.CPUModel
	}
}

// maxSockets is how far a running guest may grow: the cluster's ceiling, else a multiple of the sockets it starts with. A
// guest that does not name its sockets has not asked to grow by them. arm64 has no CPU hotplug. Neither makes a guest one that
// needs another machine.
func maxSockets(vmi *v1.VirtualMachineInstance, d config.Defaults) {
	cpu := vmi.Spec.Domain.CPU
	if d.LiveUpdate == nil || cpu.MaxSockets != 0 || vmi.Spec.Architecture == "arm64" {
		return
	}
	perSocket := max(uint64(cpu.Cores), 1) * max(uint64(cpu.Threads), 1)
	most, known := vm.MaxVCPUs(vmi.Spec.Architecture)
	if !known {
		most, _ = vm.MaxVCPUs("amd64") // the architecture is refused; its growth shall not be a second mistake
	}
	wanted := uint64(cpu.Sockets) * uint64(d.LiveUpdate.MaxHotplugRatio)
	if ceiling := d.LiveUpdate.MaxCPUSockets; ceiling != nil {
		wanted = uint64(*ceiling)
	}
	cpu.MaxSockets = max(uint32(min(wanted, most/perSocket)), cpu.Sockets)
}

// enlightenedVMCS needs the vmx feature of the CPU: it is what lets a Windows guest run Hyper-V inside. Without vapic, which the
// user has switched off then, it is refused and needs nothing.
func enlightenedVMCS(vmi *v1.VirtualMachineInstance, _ config.Defaults) {
	hyperv := vmi.Spec.Domain.Features.Hyperv
	if hyperv == nil || !on(hyperv.EVMCS) || !on(hyperv.VAPIC) {
		return
	}
	cpu := vmi.Spec.Domain.CPU
	i := slices.IndexFunc(cpu.Features, func(f v1.CPUFeature) bool { return f.Name == "vmx" })
	if i < 0 {
		cpu.Features = append(slices.Clone(cpu.Features), v1.CPUFeature{Name: "vmx", Policy: "require"})
	} else if cpu.Features[i].Policy == "" {
		cpu.Features[i].Policy = "require"
	}
}

// emulatorParity asks for an even number of CPUs where the administrator wants whole cores only.
func emulatorParity(vmi *v1.VirtualMachineInstance, d config.Defaults) {
	if d.EvenEmulatorThreads && vmi.Spec.Domain.CPU.IsolateEmulatorThread {
		annotate(vmi, v1.EmulatorThreadCompleteToEvenParity, "")
	}
}
