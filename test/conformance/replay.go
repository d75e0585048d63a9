package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/kilnvm/kiln/internal/resolve"
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/instancetype"
	"github.com/kilnvm/kiln/pkg/pipeline"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
	"kubevirt.io/api/instancetype/v1beta1"
	strictjson "sigs.k8s.io/json"
)

// record is one case and what the reference answered.
type record struct {
	ID, Config, Kind, Namespace, Operation string
	User                                   string
	VM, VMI, Old                           json.RawMessage
	Spec                                   v1.VirtualMachineInstanceSpec
	Metadata                               metav1.ObjectMeta
	Instancetype                           *v1beta1.VirtualMachineInstancetypeSpec
	Preference                             *v1beta1.VirtualMachinePreferenceSpec
	Instancetypes, Preferences             []unstructured.Unstructured
	Presets                                []v1.VirtualMachineInstancePreset
	Objects                                []unstructured.Unstructured
	Context                                struct{ Arch string }
	Expect                                 expectation
}

// cause is one finding of the reference.
type cause struct{ Type, Field, Message string }

type expectation struct {
	Allowed   bool
	Stage     string
	Panic     any
	Causes    []cause
	Message   string
	Object    json.RawMessage
	Conflicts []struct{ Field string }
	XML       string
	Error     string
}

func differs(format string, args ...any) outcome {
	return outcome{difference: fmt.Sprintf(format, args...)}
}

// replayApply compares what a size and a preference make of a guest, or the fields that conflict.
func replayApply(c record, _ config.Cluster) outcome {
	vmi := &v1.VirtualMachineInstance{ObjectMeta: c.Metadata, Spec: c.Spec}
	var set instancetype.Set
	if c.Instancetype != nil {
		set.Instancetype = &instancetype.Instancetype{Source: instancetype.Source{Kind: "VirtualMachineInstancetype", Name: "it"}, Spec: *c.Instancetype}
	}
	if c.Preference != nil {
		set.Preference = &instancetype.Preference{Source: instancetype.Source{Kind: "VirtualMachinePreference", Name: "pref"}, Spec: *c.Preference}
	}
	conflicts := instancetype.Conflicts(set, vmi, field.NewPath("spec", "template"))
	if c.Expect.Panic != nil {
		return outcome{listed: "KubeVirt panics"}
	}
	if len(c.Expect.Conflicts) > 0 || len(conflicts) > 0 {
		var paths []string
		for _, conflict := range c.Expect.Conflicts {
			paths = append(paths, conflict.Field)
		}
		return compareFields(paths, conflicts)
	}
	instancetype.Apply(set, vmi)
	var want v1.VirtualMachineInstance
	if err := json.Unmarshal(c.Expect.Object, &want); err != nil {
		return differs("unreadable: %v", err)
	}
	return compareGuests(&want, vmi)
}

// compareFields: every field that the reference names must be among Kiln's.
func compareFields(want []string, got field.ErrorList) outcome {
	have := map[string]bool{}
	for _, err := range got {
		have[err.Field] = true
	}
	for _, path := range want {
		if !have[truePath(cause{Field: path}, "spec.template.spec", nil)] && !have[path] {
			return differs("conflict missing: %s", path)
		}
	}
	if len(want) == 0 {
		return differs("conflict added: %s", got[0].Field)
	}
	return outcome{agrees: true}
}

// compareGuests compares spec, labels and annotations.
func compareGuests(want, got *v1.VirtualMachineInstance) outcome {
	for _, part := range []struct {
		name       string
		want, have any
	}{{"spec", want.Spec, got.Spec}, {"labels", want.Labels, got.Labels}, {"annotations", want.Annotations, got.Annotations}} {
		if !equality.Semantic.DeepDerivative(part.want, part.have) || !equality.Semantic.DeepDerivative(part.have, part.want) {
			return differs("%s differs: %s", part.name, firstDifference(part.want, part.have))
		}
	}
	return outcome{agrees: true}
}

// firstDifference names the first JSON path at which two values differ.
func firstDifference(want, got any) string {
	var a, b any
	for value, into := range map[*any]any{&a: want, &b: got} {
		raw, err := json.Marshal(into)
		if err != nil || json.Unmarshal(raw, value) != nil {
			return "cannot be compared"
		}
	}
	return walk("", a, b)
}

func walk(path string, a, b any) string {
	x, isMap := a.(map[string]any)
	y, alsoMap := b.(map[string]any)
	if isMap && alsoMap {
		for _, key := range keysOf(x, y) {
			if at := walk(path+"."+key, x[key], y[key]); at != "" {
				return at
			}
		}
		return ""
	}
	left, err1 := json.Marshal(a)
	right, err2 := json.Marshal(b)
	if err1 != nil || err2 != nil || !bytes.Equal(left, right) {
		return fmt.Sprintf("%s: want %.120s, got %.120s", path, left, right)
	}
	return ""
}

func keysOf(maps ...map[string]any) []string {
	counts := map[string]int{}
	for _, m := range maps {
		for key := range m {
			counts[key]++
		}
	}
	return sortedByCount(counts)
}

// replayMutate compares the mutated VMI. Of a VM, which Kiln leaves as it is, it compares the guest that it would boot.
func replayMutate(c record, cluster config.Cluster) outcome {
	if c.Kind == "vm" {
		return differs("vm: what the reference writes into the VM's spec is not compared yet")
	}
	if c.Operation == "UPDATE" {
		return outcome{agrees: true}
	}
	vmi := &v1.VirtualMachineInstance{}
	if errs := decode(c.VMI, vmi); len(errs) > 0 {
		return verdict(c, c.VMI, answer{errs: errs})
	}
	explicit, given := pipeline.ExplicitVMI(vmi, pipeline.Input{Presets: c.Presets, Cluster: cluster})
	if !given.Allowed() || !c.Expect.Allowed {
		return verdict(c, c.VMI, answer{errs: given.Errors})
	}
	// Not the status, whose times are placeholders: it is the controller's.
	var recorded struct {
		Metadata metav1.ObjectMeta
		Spec     v1.VirtualMachineInstanceSpec
	}
	if err := json.Unmarshal(c.Expect.Object, &recorded); err != nil {
		return differs("unreadable: %v", err)
	}
	want := v1.VirtualMachineInstance{ObjectMeta: recorded.Metadata, Spec: recorded.Spec}
	// Identity is the controller's and the launcher's.
	if vmi.Spec.Domain.Firmware == nil || vmi.Spec.Domain.Firmware.UUID == "" {
		want.Spec.Domain.Firmware.UUID = ""
	}
	return compareGuests(&want, explicit)
}

func replayVMI(c record, cluster config.Cluster) outcome {
	vmi := &v1.VirtualMachineInstance{}
	errs := decode(c.VMI, vmi)
	if len(errs) == 0 {
		errs = pipeline.JudgeVMI(vmi, pipeline.Input{Cluster: cluster}).Errors
	}
	return verdict(c, c.VMI, answer{errs: errs})
}

func replayVM(c record, cluster config.Cluster) outcome {
	vm := &v1.VirtualMachine{}
	given := answer{errs: decode(c.VM, vm)}
	if len(given.errs) == 0 {
		var err error
		if given, err = judgeVM(c, vm, cluster); err != nil {
			return differs("fault: %v", err)
		}
	}
	return verdict(c, c.VM, given)
}

// answer is what Kiln says of an object.
type answer struct {
	errs     field.ErrorList
	unknown  bool
	explicit *v1.VirtualMachineInstance
}

func judgeVM(c record, vm *v1.VirtualMachine, cluster config.Cluster) (given answer, err error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1.AddToScheme, appsv1.AddToScheme} {
		if err := add(scheme); err != nil {
			return given, err
		}
	}
	var old *v1.VirtualMachine
	if c.Old != nil {
		old = &v1.VirtualMachine{}
		if err := json.Unmarshal(c.Old, old); err != nil {
			return given, err
		}
	}
	var objects []*unstructured.Unstructured
	for _, list := range [][]unstructured.Unstructured{c.Instancetypes, c.Preferences, c.Objects} {
		for i := range list {
			if list[i].GetKind() == "ControllerRevision" {
				own(&list[i], vm)
			}
			objects = append(objects, &list[i])
		}
	}
	resolved, err := resolve.Resolver{Cached: resolve.NewFiles(scheme, objects...)}.VM(context.Background(), vm, old)
	var refusal *resolve.Refusal
	if errors.As(err, &refusal) {
		return answer{errs: refusal.Errors}, nil
	}
	if err != nil {
		return given, err
	}
	explicit, verdict := pipeline.ExplicitVM(vm, old, pipeline.Input{Set: resolved.Set, Presets: c.Presets, Cluster: cluster})
	unknown := vm.Spec.Instancetype != nil && resolved.Set.Instancetype == nil || vm.Spec.Preference != nil && resolved.Set.Preference == nil
	return answer{verdict.Errors, unknown, explicit}, nil
}

// own gives a recorded revision the owner that KubeVirt's controller gives each, and by which Kiln knows that it is one of
// KubeVirt's: its name holds no digest of its content.
func own(revision *unstructured.Unstructured, vm *v1.VirtualMachine) {
	revision.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(vm, v1.VirtualMachineGroupVersionKind)})
}

// decode reads strictly, as the reference's schema check does.
func decode(raw []byte, into any) field.ErrorList {
	strict, err := strictjson.UnmarshalStrict(raw, into)
	if err != nil {
		strict = append(strict, err)
	}
	var errs field.ErrorList
	for _, err := range strict {
		errs = append(errs, field.Invalid(nil, "", err.Error()))
	}
	return errs
}
