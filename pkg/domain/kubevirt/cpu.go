package kubevirt

import (
	"strconv"
	"strings"

	"github.com/beevik/etree"
	v1 "kubevirt.io/api/core/v1"
)

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
	addFeatures(cpu, recorded.Features, "require")
	addFeatures(cpu, recorded.DisabledFeatures, "disable")
}

func addFeatures(cpu *etree.Element, names []string, policy string) {
	for _, name := range names {
		f := cpu.CreateElement("feature")
		f.CreateAttr("policy", policy)
		f.CreateAttr("name", name)
	}
}
