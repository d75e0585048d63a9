// Package admit is stage 1 of the engine: it turns a VM or VMI, and the objects to which it refers, into an explicit VMI and a verdict. It also explains
// where each field came from. It does not read from a cluster: package internal/review reads the objects and passes them as values.
package admit

import (
	"cmp"
	"reflect"
	"slices"

	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/instancetype"
	"github.com/kilnvm/kiln/pkg/profile"
	"github.com/kilnvm/kiln/pkg/validate"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// Input is what stage 1 needs besides the object.
type Input struct {
	Set     instancetype.Set
	Presets []v1.VirtualMachineInstancePreset
	// Profiles are the profiles to which the VM is pinned, or all profiles for the VMI's namespace, each with the profiles that it extends, in any order.
	Profiles []*profile.Profile
	Cluster  config.Cluster
	// User is the account that sends the object; empty outside of admission. Accounts in Cluster.Limits.Controllers may do more than others.
	User string
	// Mistakes are in the references of a VM, found when they were resolved. The Set is empty then, and each mistake is part of the verdict.
	Mistakes field.ErrorList
}

// clusterDefaults returns the defaults of the cluster. The architecture of the image from which a disk is made precedes the architecture of the cluster.
func (in Input) clusterDefaults() config.Defaults {
	defaults := in.Cluster.Defaults
	defaults.Architecture = cmp.Or(in.Set.Architecture, defaults.Architecture)
	return defaults
}

// Verdict is the result of a judgement on an object.
type Verdict struct {
	Errors   field.ErrorList
	Warnings []string
	// Audit contains annotations for the audit event of the request, by key. Only GuestPolicies write them.
	Audit map[string]string
}

// Allowed reports whether the verdict has no errors. It may have warnings.
func (v Verdict) Allowed() bool { return len(v.Errors) == 0 }

// VMI returns the explicit form of a VMI, which it does not change: with the values of instancetype, preference, presets, profiles and defaults. The verdict
// has the conflicts between them; Judge judges the result. A value that equals the instancetype's is no conflict, because the VMI may have been through
// stage 1 before.
func VMI(vmi *v1.VirtualMachineInstance, in Input) (*v1.VirtualMachineInstance, Verdict) {
	explicit := vmi.DeepCopy()
	verdict := Verdict{Errors: instancetype.Differences(in.Set, explicit, nil).WithOrigin("vmi/instancetype-difference")}
	if verdict.Allowed() {
		verdict = expandVMI(explicit, in, nil).mergeVerdict(nil)
	}
	return explicit, verdict
}

// Judge returns the verdict on an explicit VMI.
func Judge(vmi *v1.VirtualMachineInstance, in Input) Verdict {
	errs, warnings := judgeGuest(vmi, in)
	return Verdict{Errors: errs, Warnings: warningTexts(warnings, nil)}
}

// JudgeMade returns the verdict on an explicit VMI that function VMI has made of the written one. Errors and warnings at fields that are not in the written VMI
// name the object that set them.
func JudgeMade(explicit, written *v1.VirtualMachineInstance, in Input) Verdict {
	errs, warnings := judgeGuest(explicit, in)
	if len(errs)+len(warnings) == 0 || !in.hasSources() {
		return Verdict{Errors: errs, Warnings: warningTexts(warnings, nil)}
	}
	f := newSourceFinder(written, "", written, in)
	f.draft.Explicit = explicit
	for _, err := range errs {
		f.nameSource(err)
	}
	return Verdict{Errors: errs, Warnings: warningTexts(warnings, f)}
}

// judgeGuest returns the errors and warnings about an explicit VMI. A field with an error has no warnings.
func judgeGuest(vmi *v1.VirtualMachineInstance, in Input) (field.ErrorList, []validate.Warning) {
	errs := slices.Concat(validate.Guest(vmi, in.Cluster.Limits, nil), validate.VMI(vmi))
	errs = append(errs, withoutErrorsBelow(in.refusedByRuntime(vmi, nil), errs)...)
	errs = sortByField(validate.Causes(validate.For(in.User, in.Cluster.Limits, errs)), reflect.TypeFor[v1.VirtualMachineInstance]())
	return errs, withoutRefusedFields(errs, "", validate.Warnings(vmi, in.Cluster.Limits))
}

// templatePath is the path of the template in a VM.
var templatePath = field.NewPath("spec", "template")

// VM returns the explicit VMI that a VM would boot, and a verdict on both: a VM that could never start is refused when it is written. old is nil on create.
// Paths in the verdict start at the VM. The VMI is nil without a template. While the instancetype or the preference does not exist, the VMI stays as it was
// written, and the verdict has only the mistakes that neither of them could mend.
func VM(vm, old *v1.VirtualMachine, in Input) (*v1.VirtualMachineInstance, Verdict) {
	explicit, verdict := judgeVM(vm, old, in)
	verdict.Warnings = append(warningTexts(withoutRefusedFields(verdict.Errors, "", validate.VMWarnings(vm, in.Cluster.Limits)), nil), verdict.Warnings...)
	return explicit, verdict
}

// judgeVM is VM without the warnings about fields that only a VM has.
func judgeVM(vm, old *v1.VirtualMachine, in Input) (*v1.VirtualMachineInstance, Verdict) {
	verdict := Verdict{Errors: withMistakes(validate.VM(vm, old, in.Cluster.Limits), in.Mistakes)}
	if vm.Spec.Template == nil {
		return nil, verdict // validate.VM names the missing template; there is no VMI to judge
	}
	explicit := Instance(vm)
	conflicts := instancetype.Conflicts(in.Set, explicit, templatePath).WithOrigin("vm/instancetype-conflict")
	verdict.Errors = append(verdict.Errors, conflicts...)
	draft, done := completeVM(vm, explicit, in)
	var warned []validate.Warning
	if draft.Written == nil {
		merged := done.mergeVerdict(templatePath)
		needed := instancetype.Requirements(in.Set, explicit, &vm.Spec.Template.Spec, field.NewPath("spec")).WithOrigin("vm/preference-requirement")
		verdict.Errors = slices.Concat(verdict.Errors, merged.Errors, needed)
		verdict.Warnings, warned = append(verdict.Warnings, merged.Warnings...), validate.Warnings(explicit, in.Cluster.Limits)
	}
	judged := validate.For(in.User, in.Cluster.Limits, validate.Known(draft, in.Cluster.Limits, templatePath))
	if draft.Written == nil {
		judged = append(judged, withoutErrorsBelow(in.refusedByRuntime(explicit, templatePath), judged)...)
	}
	// The VMI was judged with the user's values in fields that conflict with the instancetype, so that all other mistakes are reported in the same answer.
	verdict.Errors = append(verdict.Errors, withoutErrorsBelow(judged, conflicts)...)
	verdict.Errors = validate.Most(validate.Causes(verdict.Errors))
	if warned = withoutRefusedFields(verdict.Errors, templatePrefix, warned); len(verdict.Errors)+len(warned) > 0 {
		f := &sourceFinder{vm: vm, done: done, draft: draft, sent: asJSON(vm), prefix: templatePrefix}
		verdict.Errors = sortByField(f.moveErrors(verdict.Errors), reflect.TypeFor[v1.VirtualMachine]())
		verdict.Warnings = append(verdict.Warnings, warningTexts(warned, f)...)
	}
	return explicit, verdict
}

// withMistakes returns mistakes, followed by the errors of errs at other fields.
func withMistakes(errs, mistakes field.ErrorList) field.ErrorList {
	return append(slices.Clone(mistakes), slices.DeleteFunc(errs, func(err *field.Error) bool {
		return slices.ContainsFunc(mistakes, func(m *field.Error) bool { return m.Field == err.Field })
	})...)
}
