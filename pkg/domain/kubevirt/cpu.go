package kubevirt

import (
	"slices"
	"strconv"
	"strings"

	"github.com/beevik/etree"
	"github.com/kilnvm/kiln/pkg/record"
	v1 "kubevirt.io/api/core/v1"
)

// The CPU of a guest with host-model. libvirt makes it anew at each start, and of another host it makes another CPU. Admission asks for the recorded CPU in the
// fields of the VMI, by which KubeVirt also selects nodes. The hook asks libvirt for exactly this CPU.
// KubeVirt: virtwrap/converter/compute/cpu.go, and pkg/virt-controller/services/nodeselectorrenderer.go, v1.9.

// Policies of features in the API and in libvirt. A feature without policy is required.
const (
	required = "require"
	optional = "optional"
	disabled = "disable"
)

// mpx is the feature that KubeVirt disables in each model that a VMI names, because libvirt's models of old Intel processors have it.
const mpx = "mpx"

// PinCPU asks for the recorded CPU in an explicit VMI with host-model: for its model and for all its features. KubeVirt then starts the guest only on nodes with
// the labels of the model and of the features. Features of the VMI win over recorded ones, except optional ones, which the CPU has decided already.
//
// A CPU that lacks a feature of its model keeps host-model: nodes without this feature have no label of the model, so no node would fit. If the VMI has the
// hook, PinCPU then asks only for the features, because the hook puts the model back.
func PinCPU(vmi *v1.VirtualMachineInstance, recorded *record.CPU, hooked bool) {
	cpu := vmi.Spec.Domain.CPU
	if recorded == nil || recorded.Requested != v1.CPUModeHostModel || cpu == nil || cpu.Model != v1.CPUModeHostModel {
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
func isWholeModel(recorded *record.CPU, asked []v1.CPUFeature) bool {
	return !slices.ContainsFunc(recorded.DisabledFeatures, func(name string) bool {
		return name != mpx && !slices.ContainsFunc(asked, func(f v1.CPUFeature) bool {
			return f.Name == name && (f.Policy == disabled || f.Policy == "forbid" || f.Policy == optional)
		})
	})
}

// UnpinCPU returns the VMI without what PinCPU has asked for: with host-model. It returns a VMI that does not ask for the recorded CPU as it is, and does not
// change the given VMI.
func UnpinCPU(vmi *v1.VirtualMachineInstance, recorded *record.CPU) *v1.VirtualMachineInstance {
	cpu := vmi.Spec.Domain.CPU
	if recorded == nil || recorded.Requested != v1.CPUModeHostModel || cpu == nil || cpu.Model != recorded.Model {
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
	unpinned.Spec.Domain.CPU, written.Model = &written, v1.CPUModeHostModel
	written.Features = slices.DeleteFunc(slices.Clone(cpu.Features), func(f v1.CPUFeature) bool {
		_, has := slices.BinarySearch(recorded.Features, f.Name)
		return has && f.Policy == required
	})
	return &unpinned
}

// restoreCPU asks libvirt for exactly the recorded CPU, in a domain with host-model or with the recorded model. It leaves any other CPU to KubeVirt: for guests
// of another architecture KubeVirt takes model 'max'. KubeVirt's own types lose vendor, match and check when they read a definition back.
func (g *guest) restoreCPU() {
	recorded, cpu := g.frozen.CPU, g.root.SelectElement("cpu")
	if recorded == nil || recorded.Requested != v1.CPUModeHostModel || cpu == nil {
		return
	}
	named := cpu.SelectElement("model")
	if cpu.SelectAttrValue("mode", "") != v1.CPUModeHostModel && (named == nil || strings.TrimSpace(named.Text()) != recorded.Model) {
		return
	}
	for _, tag := range []string{"model", "vendor", "feature"} {
		for _, e := range cpu.SelectElements(tag) {
			cpu.RemoveChild(e)
		}
	}
	cpu.CreateAttr("mode", "custom")
	cpu.CreateAttr("match", "exact")
	cpu.CreateAttr("check", "partial")
	if recorded.Verified {
		cpu.CreateAttr("check", "full")
	}
	model := cpu.CreateElement("model")
	model.CreateAttr("fallback", "forbid")
	model.SetText(recorded.Model)
	if recorded.Vendor != "" {
		cpu.CreateElement("vendor").SetText(recorded.Vendor)
	}
	if recorded.PhysicalBits != 0 && cpu.SelectElement("maxphysaddr") == nil {
		width := cpu.CreateElement("maxphysaddr")
		width.CreateAttr("mode", "emulate")
		width.CreateAttr("bits", strconv.FormatUint(uint64(recorded.PhysicalBits), 10))
	}
	addFeatures(cpu, recorded.Features, required)
	addFeatures(cpu, recorded.DisabledFeatures, disabled)
}

func addFeatures(cpu *etree.Element, names []string, policy string) {
	for _, name := range names {
		f := cpu.CreateElement("feature")
		f.CreateAttr("policy", policy)
		f.CreateAttr("name", name)
	}
}
