// Package admit is stage 1 of the engine, on values: it turns a VM or VMI, and the objects that it refers to, into an explicit VMI and a verdict. It
// also explains where each field came from. It reads nothing; package internal/review reads for it.
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

// Input is what stage 1 needs besides the object. All of it has been read already: the engine reads nothing itself.
type Input struct {
	Set     instancetype.Set
	Presets []v1.VirtualMachineInstancePreset
	// Profiles are those that the VM is pinned to, or all that are for the VMI's namespace, each with what they extend, in any order.
	Profiles []*profile.Profile
	Cluster  config.Cluster
	// User is the account that sends the object; empty outside of admission. Accounts in Cluster.Limits.Controllers may do more than others.
	User string
	// Mistakes are those that resolving the references of a VM found. The Set is empty then, and each mistake is part of the verdict.
	Mistakes field.ErrorList
}

// defaults are the cluster's. The architecture of the image that a disk is made from counts before the cluster's.
func (in Input) defaults() config.Defaults {
	defaults := in.Cluster.Defaults
	defaults.Architecture = cmp.Or(in.Set.Architecture, defaults.Architecture)
	return defaults
}

// Verdict is the judgement on an object.
type Verdict struct {
	Errors   field.ErrorList
	Warnings []string
	// Audit are annotations for the audit event of the request, by key. Only GuestPolicies write any.
	Audit map[string]string
}

// Allowed reports whether there are no errors. Warnings refuse nothing.
func (v Verdict) Allowed() bool { return len(v.Errors) == 0 }

// VMI runs the whole of stage 1 on a copy of a VMI: instancetype, preference, presets, profiles, defaults. Its verdict reports whether they agree. Judge
// judges the result. A value that equals the instancetype's is no conflict: the VMI has been through stage 1 before.
func VMI(vmi *v1.VirtualMachineInstance, in Input) (*v1.VirtualMachineInstance, Verdict) {
	explicit := vmi.DeepCopy()
	verdict := Verdict{Errors: instancetype.Differences(in.Set, explicit, nil).WithOrigin("vmi/instancetype-difference")}
	if verdict.Allowed() {
		verdict = expand(explicit, in, nil).verdict(nil)
	}
	return explicit, verdict
}

// Judge judges an explicit VMI.
func Judge(vmi *v1.VirtualMachineInstance, in Input) Verdict {
	errs, warnings := judge(vmi, in)
	return Verdict{Errors: errs, Warnings: told(warnings, nil)}
}

// JudgeMade judges an explicit VMI that VMI has made of another one: errors and warnings at fields that the other does not have name what set them.
func JudgeMade(explicit, written *v1.VirtualMachineInstance, in Input) Verdict {
	errs, warnings := judge(explicit, in)
	if len(errs)+len(warnings) == 0 || !in.hasSources() {
		return Verdict{Errors: errs, Warnings: told(warnings, nil)}
	}
	f := finderOf(written, "", written, in)
	for _, err := range errs {
		f.name(err)
	}
	return Verdict{Errors: errs, Warnings: told(warnings, f)}
}

// judge judges an explicit VMI. It does not warn of fields that are refused.
func judge(vmi *v1.VirtualMachineInstance, in Input) (field.ErrorList, []validate.Warning) {
	errs := append(validate.Guest(vmi, in.Cluster.Limits, nil), validate.VMI(vmi)...)
	errs = sortByField(validate.Causes(validate.For(in.User, in.Cluster.Limits, errs)), reflect.TypeFor[v1.VirtualMachineInstance]())
	return errs, besides(errs, "", validate.Warnings(vmi, in.Cluster.Limits))
}

// template is the path in a VM of what its VMI is made from.
var template = field.NewPath("spec", "template")

// VM makes the VMI that a VM would boot explicit and judges the VM and that VMI together, so that a VM that could never start is refused when it
// is written. old is nil on create. Paths are those of the VM. The VMI is nil without a template. It stays as it is written while the instancetype
// or the preference does not exist: then only those mistakes are reported that neither could mend.
func VM(vm, old *v1.VirtualMachine, in Input) (*v1.VirtualMachineInstance, Verdict) {
	explicit, verdict := judgeVM(vm, old, in)
	verdict.Warnings = append(told(besides(verdict.Errors, "", validate.VMWarnings(vm, in.Cluster.Limits)), nil), verdict.Warnings...)
	return explicit, verdict
}

// judgeVM is VM without the warnings about fields that only a VM has.
func judgeVM(vm, old *v1.VirtualMachine, in Input) (*v1.VirtualMachineInstance, Verdict) {
	verdict := Verdict{Errors: except(validate.VM(vm, old, in.Cluster.Limits), in.Mistakes)}
	if vm.Spec.Template == nil {
		return nil, verdict // validate.VM names the missing template; there is no VMI to judge
	}
	explicit := Instance(vm)
	conflicts := instancetype.Conflicts(in.Set, explicit, template).WithOrigin("vm/instancetype-conflict")
	verdict.Errors = append(verdict.Errors, conflicts...)
	draft, done := complete(vm, explicit, in)
	var warned []validate.Warning
	if draft.Written == nil {
		merged := done.verdict(template)
		needed := instancetype.Requirements(in.Set, explicit, &vm.Spec.Template.Spec, field.NewPath("spec")).WithOrigin("vm/preference-requirement")
		verdict.Errors = slices.Concat(verdict.Errors, merged.Errors, needed)
		verdict.Warnings, warned = append(verdict.Warnings, merged.Warnings...), validate.Warnings(explicit, in.Cluster.Limits)
	}
	judged := validate.For(in.User, in.Cluster.Limits, validate.Known(draft, in.Cluster.Limits, template))
	verdict.Errors = append(verdict.Errors, elsewhere(judged, conflicts)...)
	verdict.Errors = validate.Most(validate.Causes(verdict.Errors))
	if warned = besides(verdict.Errors, templatePrefix, warned); len(verdict.Errors)+len(warned) > 0 {
		f := &finder{vm: vm, done: done, sent: sent(vm), prefix: templatePrefix}
		verdict.Errors = sortByField(f.actionable(verdict.Errors), reflect.TypeFor[v1.VirtualMachine]())
		verdict.Warnings = append(verdict.Warnings, told(warned, f)...)
	}
	return explicit, verdict
}

// except puts mistakes before errs, without those of errs at the same fields.
func except(errs, mistakes field.ErrorList) field.ErrorList {
	return append(slices.Clone(mistakes), slices.DeleteFunc(errs, func(err *field.Error) bool {
		return slices.ContainsFunc(mistakes, func(m *field.Error) bool { return m.Field == err.Field })
	})...)
}
