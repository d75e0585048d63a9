package profile

import (
	"encoding/json"
	"maps"
	"strings"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/record"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// The CPU of spec.commonCPU is in the status of a ClusterGuestProfile, because the spec belongs to its author, who may keep it in Git. WithCommonCPU moves it
// into the template when a snapshot is taken. So a revision is a profile without spec.commonCPU, which earlier versions of Kiln read, too, and its name changes
// with the CPU. A profile that still has spec.commonCPU has no CPU yet.

// WithCommonCPU returns a stored profile with the CPU of status.commonCPU in its template, and without spec.commonCPU. It returns the object itself if it has
// no spec.commonCPU or no legal CPU. It does not change the object, but both share values. A feature that the template lists keeps its policy.
func WithCommonCPU(object map[string]any) map[string]any {
	spec, _ := object["spec"].(map[string]any)
	if object["kind"] != v1alpha1.KindClusterGuestProfile || spec["commonCPU"] == nil {
		return object
	}
	found := storedCommonCPU(object)
	if found == nil {
		return object
	}
	spec = maps.Clone(spec)
	delete(spec, "commonCPU")
	cpu := spec
	for _, name := range []string{"template", "spec", "domain", "cpu"} {
		child, isObject := cpu[name].(map[string]any)
		if !isObject && cpu[name] != nil {
			return object // Check reports the wrong type
		}
		child = maps.Clone(child)
		if child == nil {
			child = map[string]any{}
		}
		cpu[name], cpu = child, child
	}
	own, isList := cpu["features"].([]any)
	if !isList && cpu["features"] != nil || cpu["model"] != nil {
		return object // Check reports the mistake
	}
	features, named := append([]any(nil), own...), map[any]bool{}
	for _, feature := range own {
		if feature, isObject := feature.(map[string]any); isObject {
			if name, isText := feature["name"].(string); isText {
				named[name] = true
			}
		}
	}
	for _, name := range found.Features {
		if !named[name] {
			features = append(features, map[string]any{"name": name, "policy": require})
		}
	}
	cpu["model"] = found.Model
	if len(features) > 0 {
		cpu["features"] = features
	}
	resolved := maps.Clone(object)
	resolved["spec"] = spec
	return resolved
}

// CommonCPUKey returns a text that changes with the CPU in the status of a stored profile; empty if the profile has no spec.commonCPU.
func CommonCPUKey(object map[string]any) string {
	spec, _ := object["spec"].(map[string]any)
	if spec["commonCPU"] == nil {
		return ""
	}
	found := storedCommonCPU(object)
	if found == nil {
		return "none"
	}
	return found.Model + " " + strings.Join(found.Features, " ")
}

// storedCommonCPU returns the CPU in the status of a stored profile; nil if libvirt cannot have such a CPU.
func storedCommonCPU(object map[string]any) *v1alpha1.ReportedCPU {
	status, _ := object["status"].(map[string]any)
	raw, err := json.Marshal(status["commonCPU"])
	var found v1alpha1.CommonCPUStatus
	if err != nil || json.Unmarshal(raw, &found) != nil {
		return nil
	}
	reported := &v1alpha1.ReportedCPU{Model: found.Model, Vendor: found.Vendor, Features: found.Features}
	if record.CheckReportedCPU(reported) != nil {
		return nil
	}
	return reported
}

const require = "require"

// checkCommonCPU checks spec.commonCPU, and notes that the profile has no CPU yet: WithCommonCPU would have removed the field.
func (r *reader) checkCommonCPU(common *v1alpha1.CommonCPU, size int, template *v1.VirtualMachineInstance) {
	if common == nil {
		return
	}
	r.profile.CommonCPUMissing = true
	at := specPath.Child("commonCPU")
	r.readSelector(common.NodeSelector, at.Child("nodeSelector"))
	if size > maxSpec/2 {
		r.addError(field.TooLong(specPath, "", maxSpec/2).WithOrigin("profile/limit")) // the rest is for the features of the CPU
	}
	if cpu := template.Spec.Domain.CPU; cpu != nil && cpu.Model != "" {
		r.addError(field.Forbidden(at, "fills the CPU model, which spec.template.spec.domain.cpu.model sets, too: remove one of them").
			WithOrigin("profile/common-cpu"))
	}
}

// tieFeatures ties the features that a template requires to the CPU model of the template: a VMI with another model does not get them. They are what this model
// lacks. Beside an older model, which the owner of a VM chose for hosts elsewhere, they would make the guest need more than these hosts have. Features that a
// template disables or forbids are filled beside any model.
func tieFeatures(settings []setting, template *v1.VirtualMachineInstance) {
	cpu := template.Spec.Domain.CPU
	if cpu == nil || cpu.Model == "" {
		return
	}
	const list = "spec.domain.cpu.features["
	tied := map[string]bool{}
	for _, feature := range cpu.Features {
		tied[list+feature.Name+"]"] = feature.Policy != "disable" && feature.Policy != "forbid"
	}
	for i := range settings {
		if tied[settings[i].element] {
			settings[i].model = cpu.Model
		}
	}
}
