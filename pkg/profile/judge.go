package profile

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/mutate"
	"github.com/kilnvm/kiln/pkg/validate"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// Whether a profile could fill an illegal value is found by the engine itself: VMIs that have just what the profile and its bases fill get what a VM may
// bring (companions, donors) and the defaults of the cluster, and are judged by the rules of package validate. No rule is repeated here.
//
// An error that every trial on an architecture has cannot be mended by a VM there. A profile that has one on each architecture is refused: every
// VMI that takes all of it is illegal. A profile is not refused for what a VM might set beside it, since the VM is judged then.

// architectures on which a VMI may be.
var architectures = []string{"amd64", "arm64", "s390x"}

// Verdict is the judgement on a profile.
type Verdict struct {
	// Errors refuse the profile. They are bases that lead back to it, and what no VM can mend.
	Errors field.ErrorList
	// Missing are the bases that do not exist. What they would fill is not judged.
	Missing []Missing
	// Warnings tell of them, and of values that are legal on other architectures than that of the cluster.
	Warnings []string
}

// Judge judges what a profile, with its bases among all, would make of VMIs in a cluster.
func Judge(p *Profile, all []*Profile, cluster config.Cluster) Verdict {
	found := lineageOf(p, all)
	verdict := Verdict{Errors: found.errs, Missing: found.missing}
	for _, missing := range found.missing {
		verdict.Warnings = append(verdict.Warnings, missing.String())
	}
	if len(found.errs) > 0 {
		return verdict
	}
	j := judgement{cluster: cluster, lineage: found}
	verdict.Errors = j.illegal()
	if len(verdict.Errors) == 0 {
		verdict.Warnings = append(verdict.Warnings, j.elsewhere()...)
	}
	return verdict
}

// judgement is the trials of one profile.
type judgement struct {
	cluster config.Cluster
	*lineage
}

// illegal returns the errors of the architecture that has the fewest; none if there is an architecture without.
func (j *judgement) illegal() (fewest field.ErrorList) {
	content := j.content(len(j.bases))
	on := architectures
	if own := content.Spec.Architecture; own != "" {
		on = []string{own}
	}
	least := 0
	for _, architecture := range on {
		errs := j.unmendable(content, architecture)
		if len(errs) == 0 {
			return nil
		}
		weight := len(errs)
		if own := content.Spec.Architecture; own == "" && slices.ContainsFunc(errs, besides) {
			weight += validate.MostErrors // the profile has no field that this error is at
		}
		if least == 0 || weight < least {
			fewest, least = errs, weight
		}
	}
	return j.placed(fewest)
}

// elsewhere warns of a profile that is legal, and that no VMI of the cluster's architecture can take as a whole.
func (j *judgement) elsewhere() []string {
	content, architecture := j.content(len(j.bases)), j.cluster.Defaults.Architecture
	if content.Spec.Architecture != "" {
		return nil
	}
	errs := j.placed(j.unmendable(content, architecture))
	if len(errs) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("VMIs of architecture '%s', which is the default of this cluster, are refused with this profile: %s",
		architecture, errs[0].Error())}
}

// besides reports whether an error is at the architecture, which each trial sets: what the profile sets is not for it.
func besides(err *field.Error) bool { return err.Field == "spec.architecture" }

// content returns a VMI that has what the profile and the first of its bases fill. Where the profile sets two members of a choice, it has both.
func (j *judgement) content(bases int) *v1.VirtualMachineInstance {
	vmi := j.own()
	for _, e := range j.bases[:bases] {
		e.Base.into(vmi)
	}
	return vmi
}

// own returns a VMI that has the profile's own template.
func (j *judgement) own() *v1.VirtualMachineInstance {
	vmi := j.of.example()
	vmi.Namespace, vmi.Name = "profile", "trial"
	if raw := j.of.Spec.Template.Spec.Raw; len(raw) > 0 {
		_ = json.Unmarshal(raw, &vmi.Spec) // it was decoded when the profile was read
	}
	return vmi
}

// ways is how many VMIs are tried on each architecture: each element of the lists comes at least twice, in other company.
const ways way = 12

// finding identifies an error in several trials. Its text may differ, as the words that another architecture supports do.
type finding struct{ at, rule string }

// unmendable returns the errors at what the profile and its bases set that every trial on an architecture has, in the words of the first.
func (j *judgement) unmendable(content *v1.VirtualMachineInstance, architecture string) (left field.ErrorList) {
	for way := range ways {
		found := map[finding]bool{}
		for _, err := range j.try(content, architecture, way) {
			found[finding{err.Field, err.Origin}] = true
			if way == 0 && (besides(err) || stands(content, err)) {
				left = append(left, err)
			}
		}
		left = slices.DeleteFunc(left, func(err *field.Error) bool { return !found[finding{err.Field, err.Origin}] })
		if len(left) == 0 {
			return nil
		}
	}
	return left
}

// try judges one VMI.
func (j *judgement) try(content *v1.VirtualMachineInstance, architecture string, way way) field.ErrorList {
	vmi := content.DeepCopy()
	vmi.Spec.Architecture = architecture
	accompany(vmi, way)
	of(donors(), way).into(vmi)
	mutate.Attach(vmi, j.cluster.Defaults)
	mutate.Apply(vmi, j.cluster.Defaults)
	return slices.Concat(validate.Guest(vmi, j.cluster.Limits, nil), validate.VMI(vmi), validate.QuoteSocket(vmi, j.cluster.Defaults, nil))
}

// placed moves errors below the template of the profile, or to the reference to the base that sets what is wrong.
func (j *judgement) placed(errs field.ErrorList) field.ErrorList {
	own := j.own()
	for _, err := range errs {
		at := err.Field
		if err.Field = templatePath.Child(at).String(); has(own, at) {
			continue
		}
		for i, e := range j.bases {
			if has(j.content(i+1), at) {
				reference := j.of.Spec.Extends[e.Root]
				err.Field = specPath.Child("extends").Index(e.Root).String()
				err.Detail = fmt.Sprintf("%s sets %s: %s", called(cmp.Or(reference.Kind, j.of.Kind), reference.Name), at, err.Detail)
				break
			}
		}
	}
	return errs
}
