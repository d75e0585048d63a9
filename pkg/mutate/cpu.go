package mutate

import (
	"math"
	"slices"

	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/internal/vm"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	v1 "kubevirt.io/api/core/v1"
)

// Fields: domain.cpu (cores, sockets, threads, model, maxSockets, the vmx feature), and the annotation
// alpha.kubevirt.io/EmulatorThreadCompleteToEvenParity.

// cpuTopology is SetDefaultGuestCPUTopology: without cores, sockets and threads, sockets is the CPU limit, else the CPU request, rounded up
// and at least 1. A topology of which only some counts are set stays: a count that is left out beside another means 1. The pass creates domain.cpu, on which
// later passes rely.
func cpuTopology(vmi *v1.VirtualMachineInstance, _ config.Defaults) {
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
	cpu.Sockets, cpu.Cores, cpu.Threads = wholeCPUs(count), 1, 1
}

// wholeCPUs rounds up, to 1 at least and math.MaxInt32 at most, which validate refuses: Value would return 0 for '1e400', and the schema of domain.cpu.sockets
// has signed numbers of 32 bits.
func wholeCPUs(count resource.Quantity) uint32 {
	if count.CmpInt64(math.MaxInt32) > 0 {
		return math.MaxInt32
	}
	return uint32(max(count.Value(), 1))
}

// cpuModel is setDefaultCPUModel and setDefaultArm64CPUModel: the cluster's cpuModel, and on arm64 always host-passthrough.
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

// maxSockets is setupCPUHotplug: cpu.maxSockets is the cluster's maxCpuSockets, else sockets times maxHotplugRatio, so that a VMI
// with cores or threads but no sockets gets nothing from the ratio. It is never less than sockets. Trap: KubeVirt prepares for up to
// 512 vCPUs; above vm.MaxVCPUs libvirt refuses the domain or gives it an IOMMU, so the vCPUs of all sockets stay within that.
func maxSockets(vmi *v1.VirtualMachineInstance, d config.Defaults) {
	cpu := vmi.Spec.Domain.CPU
	if d.LiveUpdate == nil || cpu.MaxSockets != 0 || vmi.Spec.Architecture == "arm64" {
		return
	}
	perSocket := max(uint64(cpu.Cores), 1) * max(uint64(cpu.Threads), 1)
	most, known := vm.MaxVCPUs(vmi.Spec.Architecture)
	if !known {
		most, _ = vm.MaxVCPUs("amd64") // validate refuses the architecture; maxSockets must not add a second error
	}
	wanted := uint64(cpu.Sockets) * uint64(d.LiveUpdate.MaxHotplugRatio)
	if ceiling := d.LiveUpdate.MaxCPUSockets; ceiling != nil {
		wanted = uint64(*ceiling)
	}
	cpu.MaxSockets = max(uint32(min(wanted, most/perSocket)), cpu.Sockets)
}

// enlightenedVMCS is setEVMCSDependency: features.hyperv.evmcs, which speeds up Hyper-V inside a Windows guest, needs the CPU feature
// vmx. With vapic off, validate refuses evmcs, and nothing is added. Trap: KubeVirt overwrites a policy of vmx that the user wrote; here
// it stays, for validate to refuse.
func enlightenedVMCS(vmi *v1.VirtualMachineInstance, _ config.Defaults) {
	hyperv := vmi.Spec.Domain.Features.Hyperv
	if hyperv == nil || !isEnabled(hyperv.EVMCS) || !isEnabled(hyperv.VAPIC) {
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

// emulatorParity copies an annotation from the KubeVirt object to a VMI with isolateEmulatorThread (ApplyNewVMIMutations). With this annotation an
// administrator asks for an even number of dedicated CPUs.
func emulatorParity(vmi *v1.VirtualMachineInstance, d config.Defaults) {
	if d.EvenEmulatorThreads && vmi.Spec.Domain.CPU.IsolateEmulatorThread {
		annotateUnset(vmi, v1.EmulatorThreadCompleteToEvenParity, "")
	}
}
