// Package admit is stage 1: a VM or VMI as its owner wrote it, with what it refers to, becomes an explicit VMI and a verdict. It also explains
// where each field came from.
package admit

import (
	"cmp"
	"slices"
	"strings"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/identity"
	"github.com/kilnvm/kiln/pkg/instancetype"
	"github.com/kilnvm/kiln/pkg/validate"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// Input is what stage 1 needs besides the object, already fetched.
type Input struct {
	Set     instancetype.Set
	Presets []v1.VirtualMachineInstancePreset
	Cluster config.Cluster
	// User is the account that asks, empty where nobody does. Controllers of guests may do more than others.
	User string
	// Mistakes are those in the references of a VM, found when they were resolved. The Set is empty then.
	Mistakes field.ErrorList
}

// defaults are the cluster's, and those that come from what the guest refers to.
func (in Input) defaults() config.Defaults {
	defaults := in.Cluster.Defaults
	defaults.Architecture = cmp.Or(in.Set.Architecture, defaults.Architecture)
	return defaults
}

// Verdict is the judgement on an object.
type Verdict struct {
	Errors   field.ErrorList
	Warnings []string
}

// Allowed tells whether there are no errors.
func (v Verdict) Allowed() bool { return len(v.Errors) == 0 }

// VMI runs the whole of stage 1 on a copy of a VMI: size, preference, presets, defaults. Its verdict tells whether
// they agree; what the result is worth is for Judge to say.
func VMI(vmi *v1.VirtualMachineInstance, in Input) (*v1.VirtualMachineInstance, Verdict) {
	explicit := vmi.DeepCopy()
	verdict := Verdict{Errors: instancetype.Differences(in.Set, explicit, nil).WithOrigin("vmi/instancetype-difference")}
	if verdict.Allowed() {
		done := expand(explicit, in, nil)
		verdict = done.verdict()
	}
	return explicit, verdict
}

// Judge judges an explicit VMI.
func Judge(vmi *v1.VirtualMachineInstance, in Input) Verdict {
	errs := append(validate.Guest(vmi, in.Cluster.Limits, nil), validate.VMI(vmi)...)
	return Verdict{Errors: validate.For(in.User, in.Cluster.Limits, errs), Warnings: validate.Warnings(vmi)}
}

// VM makes the guest that a VM would boot explicit and judges the VM and that guest together, so that a VM that
// could never start is refused when it is written. old is nil on create. Paths are those of the VM.
func VM(vm, old *v1.VirtualMachine, in Input) (*v1.VirtualMachineInstance, Verdict) {
	verdict := Verdict{Errors: except(validate.VM(vm, old, in.Cluster.Limits), in.Mistakes),
		Warnings: append(validate.VMWarnings(vm), validate.ChangeWarnings(vm, old)...)}
	if vm.Spec.Template == nil {
		return nil, verdict // validate.VM names the missing template; there is no guest to judge
	}
	explicit := Instance(vm)
	template := field.NewPath("spec", "template")
	conflicts := instancetype.Conflicts(in.Set, explicit, template).WithOrigin("vm/instancetype-conflict")
	verdict.Errors = append(verdict.Errors, conflicts...)
	if unknown(vm, in.Set) {
		// What the guest will be is not known: the rest is judged when the controller pins it.
		drafted, done := draft(vm, explicit, in)
		judged := validate.Known(drafted, in.Cluster.Limits, template)
		verdict.Errors = append(verdict.Errors, elsewhere(validate.For(in.User, in.Cluster.Limits, judged), conflicts)...)
		verdict.Errors = actionable(validate.Most(verdict.Errors), vm, done)
		return explicit, verdict
	}
	placeIdentity(explicit)
	done := traced(explicit, in)
	expanded := done.verdict()
	for _, err := range expanded.Errors {
		err.Field = template.Child(err.Field).String()
		verdict.Errors = append(verdict.Errors, err)
	}
	verdict.Warnings = append(append(verdict.Warnings, expanded.Warnings...), validate.Warnings(explicit)...)
	verdict.Errors = append(verdict.Errors, instancetype.Requirements(in.Set, explicit, &vm.Spec.Template.Spec,
		field.NewPath("spec")).WithOrigin("vm/preference-requirement")...)
	judged := append(validate.Guest(explicit, in.Cluster.Limits, template), validate.Growth(explicit, in.Cluster.Limits, template)...)
	verdict.Errors = append(verdict.Errors, elsewhere(validate.For(in.User, in.Cluster.Limits, judged), conflicts)...)
	verdict.Errors = actionable(validate.Most(verdict.Errors), vm, done)
	return explicit, verdict
}

// placeIdentity gives the guest of a VM the place where the controller puts its identity, so that no preset fills it.
func placeIdentity(vmi *v1.VirtualMachineInstance) {
	if vmi.Spec.Domain.Firmware == nil {
		vmi.Spec.Domain.Firmware = &v1.Firmware{}
	}
}

// draft is a guest of which the size or the preference is not known yet.
func draft(vm *v1.VirtualMachine, guest *v1.VirtualMachineInstance, in Input) (validate.Draft, *run) {
	draft := validate.Draft{Written: guest.DeepCopy(), Explicit: guest.DeepCopy()}
	draft.May.Instancetype = vm.Spec.Instancetype != nil && in.Set.Instancetype == nil
	draft.May.Preference = vm.Spec.Preference != nil && in.Set.Preference == nil
	instancetype.Apply(in.Set, draft.Written)
	return draft, traced(draft.Explicit, in)
}

// elsewhere leaves out errors at fields that conflict with the size: the guest was judged with the size's values there, so
// that everything else that is wrong is told at once.
func elsewhere(errs, conflicts field.ErrorList) field.ErrorList {
	return slices.DeleteFunc(errs, func(err *field.Error) bool {
		return slices.ContainsFunc(conflicts, func(c *field.Error) bool { return strings.HasPrefix(err.Field, c.Field) })
	})
}

// except puts mistakes before errs, without those of errs at the same fields.
func except(errs, mistakes field.ErrorList) field.ErrorList {
	return append(slices.Clone(mistakes), slices.DeleteFunc(errs, func(err *field.Error) bool {
		return slices.ContainsFunc(mistakes, func(m *field.Error) bool { return m.Field == err.Field })
	})...)
}

// unknown tells whether the VM names a size or a preference that does not exist yet.
func unknown(vm *v1.VirtualMachine, set instancetype.Set) bool {
	return vm.Spec.Instancetype != nil && set.Instancetype == nil || vm.Spec.Preference != nil && set.Preference == nil
}

// sourceAnnotations say, for people and dashboards, which size and preference a VMI has. They are information only.
var sourceAnnotations = map[string]string{
	instancetype.Kinds.Namespaced:           v1.InstancetypeAnnotation,
	instancetype.Kinds.Cluster:              v1.ClusterInstancetypeAnnotation,
	instancetype.PreferenceKinds.Namespaced: v1.PreferenceAnnotation,
	instancetype.PreferenceKinds.Cluster:    v1.ClusterPreferenceAnnotation,
}

// name says from what a VMI was made.
func name(vmi *v1.VirtualMachineInstance, source instancetype.Source) {
	annotate(vmi, sourceAnnotations[source.Kind], source.Name)
}

// annotate writes into the object's own annotations, which nobody else may hold.
func annotate(object metav1.Object, key, value string) {
	if key == "" || value == "" {
		return
	}
	annotations := object.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
		object.SetAnnotations(annotations)
	}
	annotations[key] = value
}

// inherited are the annotations that a VM hands to its VMI.
var inherited = []string{v1alpha1.AnnotationPins, v1alpha1.AnnotationIdentity, v1alpha1.AnnotationHardware, v1alpha1.AnnotationArchitecture}

// Instance is the sparse VMI of a VM: template, name, namespace, pins, identity. Owner, finalizers and the frozen frontend
// are for the caller to add. The VM must have a template.
func Instance(vm *v1.VirtualMachine) *v1.VirtualMachineInstance {
	vmi := &v1.VirtualMachineInstance{TypeMeta: metav1.TypeMeta{APIVersion: v1.GroupVersion.String(), Kind: "VirtualMachineInstance"}}
	template := vm.Spec.Template.DeepCopy()
	vmi.Labels, vmi.Annotations = template.ObjectMeta.Labels, template.ObjectMeta.Annotations
	vmi.Name, vmi.Namespace = vm.Name, vm.Namespace
	vmi.Spec = template.Spec
	for _, key := range inherited {
		annotate(vmi, key, vm.Annotations[key])
	}
	annotate(vmi, v1alpha1.AnnotationGeneration, identity.Generation(vm))
	return vmi
}
