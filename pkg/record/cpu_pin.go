package record

import (
	"slices"

	v1 "kubevirt.io/api/core/v1"
)

// The CPU of a guest with host-model that KubeVirt runs. libvirt makes it anew at each start, and of another host it makes another CPU. Admission asks for the
// recorded CPU in the fields of the VMI, by which KubeVirt also selects nodes. The hook asks libvirt for exactly this CPU.
// KubeVirt: virtwrap/converter/compute/cpu.go, and pkg/virt-controller/services/nodeselectorrenderer.go, v1.9.

// Policies of features in the API. A feature without policy is required.
const (
	required = "require"
	optional = "optional"
	disabled = "disable"
	forbid   = "forbid"
)

// mpx is the feature that KubeVirt disables in each model that a VMI names, because libvirt's models of old Intel processors have it.
const mpx = "mpx"

// PinCPU asks for the recorded CPU in an explicit VMI with host-model: for its model and for all its features. KubeVirt then starts the guest only on nodes
// with the labels of the model and of the features. Features of the VMI win over recorded ones, except optional ones, which the CPU has decided already.
//
// A CPU that lacks a feature of its model keeps host-model: nodes without this feature have no label of the model, so no node would fit. If the VMI has the
// hook, PinCPU then asks only for the features, because the hook puts the model back.
func PinCPU(vmi *v1.VirtualMachineInstance, recorded *CPU, hooked bool) {
	cpu := vmi.Spec.Domain.CPU
	if recorded == nil || recorded.Requested != hostModel || cpu == nil || cpu.Model != hostModel {
		return
	}
	switch {
	case isWholeModel(recorded, cpu.Features):
		cpu.Model = recorded.Model
	case !hooked:
		return
	}
	asked := map[string]bool{}
	for i := range cpu.Features {
		f := &cpu.Features[i]
		asked[f.Name] = true
		if f.Policy != optional {
			continue
		}
		if _, has := slices.BinarySearch(recorded.Features, f.Name); has {
			f.Policy = required
		} else if _, lacks := slices.BinarySearch(recorded.DisabledFeatures, f.Name); lacks {
			f.Policy = disabled
		}
	}
	for _, name := range recorded.Features {
		if !asked[name] {
			cpu.Features = append(cpu.Features, v1.CPUFeature{Name: name, Policy: required})
		}
	}
}

// isWholeModel reports whether a CPU has all features of its model, except mpx and those that the VMI does without.
func isWholeModel(recorded *CPU, asked []v1.CPUFeature) bool {
	return !slices.ContainsFunc(recorded.DisabledFeatures, func(name string) bool {
		return name != mpx && !slices.ContainsFunc(asked, func(f v1.CPUFeature) bool {
			return f.Name == name && (f.Policy == disabled || f.Policy == forbid || f.Policy == optional)
		})
	})
}

// UnpinCPU returns the VMI without what PinCPU has asked for: with host-model. It returns a VMI that does not ask for the recorded CPU as it is, and does not
// change the given VMI.
func UnpinCPU(vmi *v1.VirtualMachineInstance, recorded *CPU) *v1.VirtualMachineInstance {
	cpu := vmi.Spec.Domain.CPU
	if recorded == nil || recorded.Requested != hostModel || cpu == nil || cpu.Model != recorded.Model {
		return vmi
	}
	asked := map[string]bool{}
	for _, f := range cpu.Features {
		asked[f.Name] = true
	}
	if slices.ContainsFunc(recorded.Features, func(name string) bool { return !asked[name] }) {
		return vmi
	}
	unpinned, written := *vmi, *cpu
	unpinned.Spec.Domain.CPU, written.Model = &written, hostModel
	written.Features = slices.DeleteFunc(slices.Clone(cpu.Features), func(f v1.CPUFeature) bool {
		_, has := slices.BinarySearch(recorded.Features, f.Name)
		return has && f.Policy == required
	})
	return &unpinned
}
