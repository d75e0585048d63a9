package review

import (
	"strings"
	"testing"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/policy"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	v1 "kubevirt.io/api/core/v1"
)

// edited returns a copy of a VM with a change.
func edited(vm *v1.VirtualMachine, change func(*v1.VirtualMachine)) *v1.VirtualMachine {
	vm = vm.DeepCopy()
	change(vm)
	return vm
}

// TestUpdatesOfViolators: a VM that violates a policy is edited where its VMI stays, with a warning, and is refused where the VMI changes or where the
// edit itself brings the violation.
func TestUpdatesOfViolators(t *testing.T) {
	type change = func(*v1.VirtualMachine)
	halt := func(vm *v1.VirtualMachine) { vm.Spec.RunStrategy = new(v1.RunStrategyHalted) }
	cores := func(n uint32) change {
		return func(vm *v1.VirtualMachine) { vm.Spec.Template.Spec.Domain.CPU.Cores = n }
	}
	label := func(vm *v1.VirtualMachine) { vm.Spec.Template.ObjectMeta.Labels = map[string]string{"a": "b"} }
	annotation := func(vm *v1.VirtualMachine) { vm.Spec.Template.ObjectMeta.Annotations = map[string]string{"a": "b"} }
	spelled := func(vm *v1.VirtualMachine) { vm.Spec.Template.Spec.Architecture = "amd64" }
	fails := "fails object.spec.template.metadata.labels['absent'] == guest.metadata.name"
	for _, test := range []struct {
		why, policy string
		edit        change
		rule        string
		warnings    int
	}{
		{"the run strategy", fewCores, halt, "", 1},
		{"a field that has its default's value", fewCores, spelled, "", 1},
		{"the VMI, which violates still", fewCores, cores(8), policy.RuleDenied, 0},
		{"the VMI, which violates no more", fewCores, cores(2), "", 0},
		{"a label of the VMI", fewCores, label, policy.RuleDenied, 0},
		{"an annotation of the VMI", fewCores, annotation, policy.RuleDenied, 0},
		{"an edit that brings the violation", "runs object.spec.runStrategy == 'Always'", halt, policy.RuleDenied, 0},
		{"a comparison with the old object", "kept oldObject == null || object.spec.runStrategy == oldObject.spec.runStrategy", halt, policy.RuleDenied, 0},
		{"an expression that fails for both", fails, halt, "", 1},
		{"an expression that fails, and another VMI", fails, cores(8), policy.RuleFailed, 0},
		{"an expression that fails by the edit", "late object.spec.runStrategy == 'Always' || object.metadata.labels['absent'] == ''", halt, policy.RuleFailed, 0},
		{"a policy that warns", "warn-few guest.spec.domain.cpu.cores <= 2", halt, "", 1},
	} {
		t.Run(test.why, func(t *testing.T) {
			old := cpus(t, "4")
			reviewed, err := policied(t, inForce(t, test.policy)).ReviewVM(t.Context(), edited(old, test.edit), old, Asker{})
			rule := ""
			for _, e := range reviewed.Errors {
				rule += e.Origin
			}
			if err != nil || rule != test.rule || len(reviewed.Warnings) != test.warnings {
				t.Errorf("%s, warns %q, %v; want '%s' and %d warnings", texts(reviewed.Errors), reviewed.Warnings, err, test.rule, test.warnings)
			}
			if name, _, _ := strings.Cut(test.policy, " "); test.warnings > 0 && !strings.Contains(reviewed.Warnings[0], "GuestPolicy '"+name+"'") {
				t.Errorf("warns %q", reviewed.Warnings)
			}
		})
	}
}

// TestOneOfTwoViolationsIsForgiven: each validation is compared with itself.
func TestOneOfTwoViolationsIsForgiven(t *testing.T) {
	old := cpus(t, "4")
	r := policied(t, inForce(t, fewCores, "runs object.spec.runStrategy == 'Always'"))
	halted := edited(old, func(vm *v1.VirtualMachine) { vm.Spec.RunStrategy = new(v1.RunStrategyHalted) })
	reviewed, err := r.ReviewVM(t.Context(), halted, old, Asker{})
	if mistakes := texts(reviewed.Errors); err != nil || len(reviewed.Errors) != 1 || !strings.Contains(mistakes, "'runs'") || len(reviewed.Warnings) != 1 ||
		!strings.Contains(reviewed.Warnings[0], "'few'") {
		t.Errorf("%s, warns %q, %v", mistakes, reviewed.Warnings, err)
	}
}

// TestWhatCameLaterIsJudgedWhenPinned: a VM that was written before its instancetype, or before a preset that fills it, is judged when the controller
// pins that. Users of a namespace write both, so that a VM could otherwise evade every policy about its VMI.
func TestWhatCameLaterIsJudgedWhenPinned(t *testing.T) {
	controller := Asker{Name: config.Default().Limits.Controllers[0]}
	big := untyped(t, "apiVersion: instancetype.kubevirt.io/v1beta1\nkind: VirtualMachineInstancetype\nmetadata: {name: big, namespace: team}\n"+
		"spec: {cpu: {guest: 4}, memory: {guest: 1Gi}}\n")
	preset := untyped(t, "apiVersion: kubevirt.io/v1\nkind: VirtualMachineInstancePreset\nmetadata: {name: big, namespace: team}\n"+
		"spec: {selector: {matchLabels: {size: big}}, domain: {cpu: {sockets: 4}}}\n")
	profile := untyped(t, "apiVersion: kilnvm.io/v1alpha1\nkind: GuestProfile\nmetadata: {name: big, namespace: team}\n"+
		"spec: {selector: {matchLabels: {size: big}}, template: {spec: {domain: {cpu: {sockets: 4}}}}}\n")
	ofBig := parsed[v1.VirtualMachine](t, "metadata: {name: a, namespace: team}\nspec: {runStrategy: Halted, "+
		"instancetype: {name: big, kind: VirtualMachineInstancetype}, template: {spec: {domain: {devices: {}}}}}\n")
	labelled := parsed[v1.VirtualMachine](t, "metadata: {name: a, namespace: team}\nspec: {runStrategy: Halted, template: "+
		"{metadata: {labels: {size: big}}, spec: {domain: {memory: {guest: 1Gi}, devices: {}}}}}\n")
	few := inForce(t, "few guest == null || !has(guest.spec.domain.cpu) || !has(guest.spec.domain.cpu.sockets) || guest.spec.domain.cpu.sockets <= 2")
	for _, test := range []struct {
		why   string
		vm    *v1.VirtualMachine
		later *unstructured.Unstructured
		pins  string
	}{
		{"an instancetype", ofBig, big, `{"instancetype":"` + stored(t, big).GetName() + `"}`},
		{"a preset", labelled, preset, `{"presets":["` + stored(t, preset).GetName() + `"]}`},
		{"a profile", labelled, profile, `{"presets":[],"profiles":["` + stored(t, profile).GetName() + `"]}`},
	} {
		t.Run(test.why, func(t *testing.T) {
			if reviewed, err := policied(t, few).ReviewVM(t.Context(), test.vm, nil, Asker{}); err != nil || !reviewed.Allowed() {
				t.Fatalf("before it exists: %s, %v", texts(reviewed.Errors), err)
			}
			pinned := edited(test.vm, func(vm *v1.VirtualMachine) { vm.Annotations = map[string]string{v1alpha1.AnnotationPins: test.pins} })
			known := []*unstructured.Unstructured{test.later, stored(t, test.later)}
			reviewer := policied(t, few, known...)
			reviewed, err := reviewer.ReviewVM(t.Context(), pinned, test.vm, controller)
			verdict := reviewed.Verdict
			if test.later != big {
				verdict, err = reviewer.ReviewVMMetadata(t.Context(), pinned, test.vm, controller)
			}
			if err != nil || !strings.Contains(texts(verdict.Errors), policy.RuleDenied) {
				t.Errorf("when it is pinned: %s, %v", texts(verdict.Errors), err)
			}
			// Once it is pinned, the VM is one that exists.
			started := edited(pinned, func(vm *v1.VirtualMachine) { vm.Spec.RunStrategy = new(v1.RunStrategyAlways) })
			if reviewed, err := reviewer.ReviewVM(t.Context(), started, pinned, Asker{}); err != nil || !reviewed.Allowed() || len(reviewed.Warnings) == 0 {
				t.Errorf("when it is started: %s, warns %q, %v", texts(reviewed.Errors), reviewed.Warnings, err)
			}
			if verdict, err := policied(t, nil, known...).ReviewVMMetadata(t.Context(), pinned, test.vm, controller); err != nil || !verdict.Allowed() {
				t.Errorf("without policies: %s, %v", texts(verdict.Errors), err)
			}
		})
	}
}

// TestAnotherViolationOfTheSameValidation: an update that changes what a violated validation reads is not forgiven, and any other update is.
func TestAnotherViolationOfTheSameValidation(t *testing.T) {
	old := cpus(t, "1")
	old.Labels, old.Annotations = map[string]string{"tier": "evil", "x": "y"}, map[string]string{"example.org/owner": "root"}
	old.Spec.Template.ObjectMeta.Labels = map[string]string{"role": "db"}
	label := func(key, value string) func(*v1.VirtualMachine) {
		return func(vm *v1.VirtualMachine) { vm.Labels[key] = value }
	}
	annotate := func(vm *v1.VirtualMachine) { vm.Annotations["example.org/owner"] = "wheel" }
	const (
		ofKey     = "p object.metadata.?labels['tier'].orValue('') in ['gold', 'silver']"
		ofField   = "p has(object.metadata.labels) && has(object.metadata.labels.tier) && object.metadata.labels.tier == 'gold'"
		ofSet     = "p !('tier' in object.metadata.labels)"
		ofAll     = "p object.metadata.labels.all(k, object.metadata.labels[k] != 'evil')"
		ofOwner   = "p object.metadata.annotations['example.org/owner'] == 'ann'"
		ofRest    = "p object.metadata.name == 'b'"
		ofWhole   = "p object.metadata != oldObject.metadata && false"
		ofGuest   = "p guest.metadata.labels['role'] == 'web'"
		ofRunning = "p object.spec.runStrategy in ['Manual', 'Once']"
	)
	for _, test := range []struct {
		why, policy string
		edit        func(*v1.VirtualMachine)
		refused     bool
	}{
		{"the label that it reads", ofKey, label("tier", "worse"), true},
		{"another label", ofKey, label("other", "one"), false},
		{"the label, read as a field", ofField, label("tier", "worse"), true},
		{"another label, and a test whether there are any", ofField, label("other", "one"), false},
		{"the value, and only its presence is read", ofSet, label("tier", "worse"), false},
		{"any label, and a loop reads all", ofAll, label("other", "one"), true},
		{"an annotation, and a loop reads all labels", ofAll, annotate, false},
		{"the annotation that it reads", ofOwner, annotate, true},
		{"a label, and it reads an annotation", ofOwner, label("tier", "worse"), false},
		{"a label, and it reads the name", ofRest, label("tier", "worse"), false},
		{"a label, and it reads all metadata", ofWhole, label("tier", "worse"), true},
		{"a label of the VM, and it reads the labels of the guest", ofGuest, label("role", "x"), false},
		{"the run strategy that it reads", ofRunning, func(vm *v1.VirtualMachine) { vm.Spec.RunStrategy = new(v1.RunStrategyRerunOnFailure) }, true},
	} {
		t.Run(test.why, func(t *testing.T) {
			reviewer, now := policied(t, inForce(t, test.policy)), edited(old, test.edit)
			reviewed, err := reviewer.ReviewVM(t.Context(), now, old, Asker{})
			verdict, again := reviewer.ReviewVMMetadata(t.Context(), now, old, Asker{})
			if err != nil || again != nil || reviewed.Allowed() == test.refused {
				t.Errorf("%s, warns %q, %v, %v", texts(reviewed.Errors), reviewed.Warnings, err, again)
			}
			if equality.Semantic.DeepEqual(now.Spec, old.Spec) && verdict.Allowed() == test.refused {
				t.Errorf("of metadata alone: %s, warns %q", texts(verdict.Errors), verdict.Warnings)
			}
		})
	}
	// A variable reads for the validation.
	of := &v1alpha1.GuestPolicy{ObjectMeta: metav1.ObjectMeta{Name: "v"}}
	of.Spec.Variables = []v1alpha1.GuestPolicyVariable{
		{Name: "tier", Expression: "object.metadata.labels['tier']"}, {Name: "twice", Expression: "variables.tier + variables.tier"},
	}
	of.Spec.Validations = []v1alpha1.GuestPolicyValidation{{Expression: "variables.twice == 'goldgold'"}}
	compiled, mistakes := policy.Compile(of)
	reviewer := policied(t, func() ([]*policy.Policy, error) { return []*policy.Policy{compiled}, mistakes.ToAggregate() })
	for value, refused := range map[string]bool{"tier": true, "other": false} {
		verdict, err := reviewer.ReviewVMMetadata(t.Context(), edited(old, label(value, "worse")), old, Asker{})
		if err != nil || verdict.Allowed() == refused {
			t.Errorf("label %s: %s, %v", value, texts(verdict.Errors), err)
		}
	}
}
