package profile

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/hardware"
	"github.com/kilnvm/kiln/pkg/mutate"
	"github.com/kilnvm/kiln/pkg/validate"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// The engine itself finds out whether a profile could fill an illegal value. A trial VMI has only what the profile and its bases fill. It gets what a VM may
// bring (addCompanions) and the defaults of the cluster, and package validate judges it. No rule is repeated here. Some rules require more than every VM has,
// such as dedicated CPUs or SMM: if a family of rules refuses the trial VMI, the family judges a second one, beside a VM that has what the rules of the family
// require (families). A profile is not refused for what a VM might set beside it, because the VM is judged then.
//
// The errors that remain are those which no VM can mend on the architecture. A profile that sets no architecture is refused if such errors remain on each
// architecture.

// Verdict is the result of Judge.
type Verdict struct {
	// Errors refuse the profile: a base extends the profile in turn, or a value is illegal whatever a VM sets besides.
	Errors field.ErrorList
	// Missing are the bases that do not exist. Their values are not judged.
	Missing []Missing
	// WithoutCPU are the profile and its bases that have spec.commonCPU and no CPU yet.
	WithoutCPU []*Profile
	// Warnings name missing bases, and values that are legal only on other architectures than the cluster's default.
	Warnings []string
}

// Judge reports whether a profile and its bases, which are looked up in all, could give VMIs of a cluster illegal values.
func Judge(p *Profile, all []*Profile, cluster config.Cluster) Verdict {
	found := lineageOf(p, all)
	verdict := Verdict{Errors: found.errs, Missing: found.missing}
	for _, missing := range found.missing {
		verdict.Warnings = append(verdict.Warnings, missing.String())
	}
	for _, one := range append([]*Profile{p}, found.baseProfiles()...) {
		if one.CommonCPUMissing {
			verdict.WithoutCPU = append(verdict.WithoutCPU, one)
		}
	}
	if len(found.errs) > 0 {
		return verdict
	}
	j := judgement{cluster: cluster, lineage: found}
	errs, elsewhere := j.illegalValues()
	if elsewhere {
		verdict.Warnings = append(verdict.Warnings, fmt.Sprintf("VMIs of architecture '%s', which is the default of this cluster, are refused with this profile: %s",
			cluster.Defaults.Architecture, errs[0].Error()))
	} else {
		verdict.Errors = errs
	}
	return verdict
}

// judgement judges what one profile and its bases fill.
type judgement struct {
	cluster config.Cluster
	*lineage
}

// illegalValues returns the errors of the profile on its architecture, or on the default of the cluster if it sets none. elsewhere reports that the profile is
// legal on another architecture. If it is legal on no architecture, it returns the errors of the architecture with the fewest.
func (j *judgement) illegalValues() (errs field.ErrorList, elsewhere bool) {
	content := j.contentWithBases(len(j.bases))
	own := content.Spec.Architecture
	first := cmp.Or(own, j.cluster.Defaults.Architecture)
	errs = j.unmendableErrors(content, first)
	if len(errs) == 0 || own != "" {
		return j.locateErrors(errs), false
	}
	fewest := errs
	for _, architecture := range hardware.Architectures {
		if architecture == first {
			continue
		}
		found := j.unmendableErrors(content, architecture)
		if len(found) == 0 {
			return j.locateErrors(errs), true
		}
		if errorWeight(found) < errorWeight(fewest) {
			fewest = found
		}
	}
	return j.locateErrors(fewest), false
}

// errorWeight returns the number of errors. Errors on an architecture that the cluster does not serve weigh most: they are at no field of the profile.
func errorWeight(errs field.ErrorList) int {
	if slices.ContainsFunc(errs, isArchitectureError) {
		return len(errs) + validate.MostErrors
	}
	return len(errs)
}

// isArchitectureError reports whether an error is at the architecture, which each trial sets.
func isArchitectureError(err *field.Error) bool { return err.Field == "spec.architecture" }

// contentWithBases returns a VMI that has what the profile and the first of its bases fill. If the profile sets two members of a choice, the VMI has both.
func (j *judgement) contentWithBases(bases int) *v1.VirtualMachineInstance {
	vmi := j.ownContent()
	for _, e := range j.bases[:bases] {
		e.Base.fillOwnSettings(vmi)
	}
	return vmi
}

// ownContent returns a VMI that has the profile's own template.
func (j *judgement) ownContent() *v1.VirtualMachineInstance {
	vmi := j.of.vmiWithMetadata()
	vmi.Namespace, vmi.Name = "profile", "trial"
	if raw := j.of.Spec.Template.Spec.Raw; len(raw) > 0 {
		_ = json.Unmarshal(raw, &vmi.Spec) // it was decoded when the profile was read
	}
	return vmi
}

// unmendableErrors returns the errors at what the profile and its bases set that no VM mends on an architecture.
func (j *judgement) unmendableErrors(content *v1.VirtualMachineInstance, architecture string) field.ErrorList {
	again := map[string]field.ErrorList{} // by the family
	return slices.DeleteFunc(j.judgeTrialVMI(content, architecture, ""), func(err *field.Error) bool {
		if !isArchitectureError(err) && !isAtContent(content, err) {
			return true
		}
		family, _, _ := strings.Cut(err.Origin, "/")
		if families()[family] == nil {
			return false
		}
		if _, tried := again[family]; !tried {
			again[family] = j.judgeTrialVMI(content, architecture, family)
		}
		return !slices.ContainsFunc(again[family], func(e *field.Error) bool { return e.Field == err.Field && e.Origin == err.Origin })
	})
}

// judgeTrialVMI judges a VMI beside the VM of a family of rules, or beside a plain VM without a family.
func (j *judgement) judgeTrialVMI(content *v1.VirtualMachineInstance, architecture, family string) field.ErrorList {
	vmi := content.DeepCopy()
	vmi.Spec.Architecture = architecture
	addCompanions(vmi, family)
	if beside := families()[family]; beside != nil {
		beside.fillOwnSettings(vmi)
	}
	plain().fillOwnSettings(vmi)
	mutate.Attach(vmi, j.cluster.Defaults)
	mutate.Apply(vmi, j.cluster.Defaults)
	limits := j.cluster.Limits
	return slices.Concat(validate.Guest(vmi, limits, nil), validate.VMI(vmi), validate.QuoteSocket(vmi, j.cluster.Defaults, limits.Version, nil))
}

// locateErrors moves errors below the template of the profile, or to the reference to the base that sets what is wrong.
func (j *judgement) locateErrors(errs field.ErrorList) field.ErrorList {
	own := j.ownContent()
	for _, err := range errs {
		at := err.Field
		if err.Field = templatePath.Child(at).String(); hasPath(own, at) {
			continue
		}
		for i, e := range j.bases {
			if hasPath(j.contentWithBases(i+1), at) {
				reference := j.of.Spec.Extends[e.Root]
				err.Field = specPath.Child("extends").Index(e.Root).String()
				err.Detail = fmt.Sprintf("%s sets %s: %s", kindAndName(cmp.Or(reference.Kind, j.of.Kind), reference.Name), at, err.Detail)
				break
			}
		}
	}
	return errs
}
