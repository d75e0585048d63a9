package validate

import (
	"fmt"
	"slices"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/instancetype"
	"github.com/kilnvm/kiln/pkg/nearest"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// Fields: spec of a VM except the content of its template: template, running, runStrategy, instancetype, preference.
// KubeVirt has these rules in ValidateVirtualMachineSpec, validateRunStrategy and, for instancetype and preference, in its mutating webhook
// (validateInstancetypeMatcher, validatePreferenceMatcher), which therefore refuses VMs before anything else is judged.

var vmRules = slices.Concat([]vmRule{
	{templateGiven, []Rule{
		{Name: "vm/template"},
	}},
	{runStrategy, []Rule{
		{Name: "vm/running-and-strategy"},
		{Name: "vm/strategy-given"},
		{Name: "vm/strategy-gate"},
		{Name: "vm/strategy"},
	}},
	{matchers, []Rule{
		{Name: "vm/matcher-name", KubeVirt: KubeVirtRefusesSome},
		{Name: "vm/matcher-infer-name"},
		{Name: "vm/matcher-infer-kind"},
		{Name: "vm/matcher-kind", KubeVirt: KubeVirtAdmits},
		{Name: "vm/matcher-policy"},
		{Name: "vm/revision-of-another", KubeVirt: KubeVirtAdmits},
	}},
	{hardwareOfVM, hardwareRules},
	{nameOfVM, domainNameRules},
}, templateMetadataRules, templateRules, []vmRule{
	{inProgress, []Rule{
		{Name: "vm/restore-running"},
		{Name: "vm/snapshot-running"},
		{Name: "vm/snapshot-volumes"},
	}},
}, volumeRequestRules)

// ofVM is the path of a VM's spec. The VMI's path, which rules of the template begin with, is ofVM.Child("template").
var ofVM = field.NewPath("spec")

// VM judges the fields that only a VirtualMachine has: template, run strategy, instancetype and preference, data volume templates. Guest and Growth judge
// the VMI of its template. old is nil on create. Paths start at the VM.
func VM(vm, old *v1.VirtualMachine, limits config.Limits) (errs field.ErrorList) {
	for i := range vmRules {
		errs = append(errs, vmRules[i].judge(vm, old, limits)...)
	}
	return errs
}

// templateGiven requires the template. The other rules skip a VM without one.
func templateGiven(vm, _ *v1.VirtualMachine, _ config.Limits) field.ErrorList {
	if vm.Spec.Template != nil {
		return nil
	}
	return field.ErrorList{field.Required(ofVM.Child("template"), "give the template of the VMI").WithOrigin("vm/template")}
}

// runStrategies are those that need no feature gate. WaitAsReceiver is for migrations between clusters.
var runStrategies = []v1.VirtualMachineRunStrategy{v1.RunStrategyAlways, v1.RunStrategyHalted, v1.RunStrategyManual, v1.RunStrategyOnce,
	v1.RunStrategyRerunOnFailure}

// runStrategy requires one of running and runStrategy. KubeVirt reports a missing one at spec.running, which is deprecated.
func runStrategy(vm, _ *v1.VirtualMachine, limits config.Limits) field.ErrorList {
	at := ofVM.Child("runStrategy")
	switch strategy := vm.Spec.RunStrategy; {
	case strategy != nil && vm.Spec.Running != nil:
		return field.ErrorList{field.Forbidden(ofVM.Child("running"),
			"cannot be combined with runStrategy: remove running, which is deprecated").WithOrigin("vm/running-and-strategy")}
	case strategy == nil && vm.Spec.Running == nil:
		return field.ErrorList{field.Required(at, "set it, for example to 'Always' or 'Halted'").WithOrigin("vm/strategy-given")}
	case strategy == nil:
		return nil
	case *strategy == v1.RunStrategyWaitAsReceiver:
		return gated(limits, "DecentralizedLiveMigration", at).WithOrigin("vm/strategy-gate")
	default:
		return supported(at, *strategy, runStrategies...).WithOrigin("vm/strategy")
	}
}

// VMWarnings returns warnings about fields that only a VM has. Their paths start at the VM.
func VMWarnings(vm *v1.VirtualMachine, limits config.Limits) []Warning {
	var found warned
	if vm.Spec.Running != nil {
		found.addWarning([]string{"running"}, "spec.running is deprecated: use spec.runStrategy")
	}
	found = append(found, unknownKeyWarnings(vm.Annotations)...)
	if limits.KubeVirtGuests {
		return append(found, kubeVirtIgnores(vm)...)
	}
	if strategy := vm.Spec.RunStrategy; strategy != nil && *strategy == v1.RunStrategyWaitAsReceiver {
		found.addWarning([]string{"runStrategy"},
			"runStrategy 'WaitAsReceiver': live migration is not served; use 'Always' to start the VM, 'Halted' to stop it")
	}
	if len(vm.Spec.DataVolumeTemplates) > 0 && limits.RunsOnMachines() {
		found.addWarning([]string{"dataVolumeTemplates"}, "dataVolumeTemplates: bare machines use no DataVolumes; describe the claims on the machine")
	}
	if strategy := vm.Spec.UpdateVolumesStrategy; strategy != nil && *strategy == v1.UpdateVolumesStrategyMigration {
		found.addWarning([]string{"updateVolumesStrategy"},
			"updateVolumesStrategy 'Migration': live migration is not served; changed volumes apply at the next start")
	}
	if template := vm.Spec.Template; template != nil {
		if eviction := template.Spec.EvictionStrategy; eviction != nil && *eviction != v1.EvictionStrategyNone {
			found.addWarning([]string{"template.spec.evictionStrategy"},
				"evictionStrategy '%s': live migration is not served; a drain shuts the guest down", short(string(*eviction)))
		}
	}
	if word, set := vm.Annotations[v1alpha1.AnnotationRollout]; set && word != v1alpha1.RolloutRestart {
		found = append(found, ofAnnotation(v1alpha1.AnnotationRollout, "annotation '%s': '%s' has no effect; the value is '%s'", v1alpha1.AnnotationRollout,
			short(word), v1alpha1.RolloutRestart))
	}
	return found
}

// matchers judges spec.instancetype and spec.preference without resolving them.
func matchers(vm, old *v1.VirtualMachine, _ config.Limits) (errs field.ErrorList) {
	policies := []v1.InferFromVolumeFailurePolicy{v1.IgnoreInferFromVolumeFailure, v1.RejectInferFromVolumeFailure}
	if m := vm.Spec.Instancetype; m != nil {
		now := matcher{m.Name, m.Kind, m.RevisionName, m.InferFromVolume, m.InferFromVolumeFailurePolicy, instancetype.Kinds}
		errs = append(errs, now.judgeReference(policies, ofVM.Child("instancetype"))...)
		if old != nil && old.Spec.Instancetype != nil {
			was := old.Spec.Instancetype
			errs = append(errs, now.judgeChange(was.Name, was.RevisionName, ofVM.Child("instancetype"))...)
		}
	}
	if m := vm.Spec.Preference; m != nil {
		now := matcher{m.Name, m.Kind, m.RevisionName, m.InferFromVolume, m.InferFromVolumeFailurePolicy, instancetype.PreferenceKinds}
		errs = append(errs, now.judgeReference(policies, ofVM.Child("preference"))...)
		if old != nil && old.Spec.Preference != nil {
			was := old.Spec.Preference
			errs = append(errs, now.judgeChange(was.Name, was.RevisionName, ofVM.Child("preference"))...)
		}
	}
	return errs
}

// matcher has the fields that InstancetypeMatcher and PreferenceMatcher share.
type matcher struct {
	name, kind, revision, infer string
	policy                      *v1.InferFromVolumeFailurePolicy
	kinds                       instancetype.KindNames
}

// judgeReference requires a name or a volume from which the matcher is inferred. KubeVirt accepts an unknown kind, and never starts the VM.
func (m matcher) judgeReference(policies []v1.InferFromVolumeFailurePolicy, at *field.Path) (errs field.ErrorList) {
	if m.name == "" && m.infer == "" {
		errs = append(errs, field.Required(at.Child("name"), "give name or inferFromVolume").WithOrigin("vm/matcher-name"))
	}
	if m.name != "" && m.infer != "" {
		errs = append(errs, field.Forbidden(at.Child("name"), "cannot be combined with inferFromVolume: remove one of them").WithOrigin("vm/matcher-infer-name"))
	}
	if m.kind != "" && m.infer != "" {
		errs = append(errs, field.Forbidden(at.Child("kind"),
			"cannot be combined with inferFromVolume, which also finds the kind: remove kind").WithOrigin("vm/matcher-infer-kind"))
	}
	if m.kinds.Canonical(m.kind) == "" {
		errs = append(errs, nearest.Unsupported(at.Child("kind"), m.kind, []string{m.kinds.Cluster, m.kinds.Namespaced}).WithOrigin("vm/matcher-kind"))
	}
	if m.policy != nil {
		errs = append(errs, supported(at.Child("inferFromVolumeFailurePolicy"), *m.policy, policies...).WithOrigin("vm/matcher-policy")...)
	}
	return errs
}

// judgeChange refuses another name with the revisionName of the one before, because the VM would keep the content of the former. In KubeVirt it
// is validateMatcherUpdate.
func (m matcher) judgeChange(name, revision string, at *field.Path) field.ErrorList {
	if m.name == name || m.revision == "" || m.revision != revision {
		return nil
	}
	return field.ErrorList{field.Invalid(at.Child("revisionName"), m.revision,
		fmt.Sprintf("is a revision of '%s': remove it, or name one of '%s'", name, m.name)).WithOrigin("vm/revision-of-another")}
}
