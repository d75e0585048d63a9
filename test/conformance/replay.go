package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

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
	VM, VMI                                json.RawMessage
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

type expectation struct {
	Allowed   bool
	Stage     string
	Panic     any
	Causes    []struct{ Type, Field, Message string }
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
		if !have[truePath(path)] && !have[path] {
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
		return verdictOutcome(c, errs)
	}
	explicit, verdict := pipeline.ExplicitVMI(vmi, pipeline.Input{Presets: c.Presets, Cluster: cluster})
	if !verdict.Allowed() || !c.Expect.Allowed {
		return verdictOutcome(c, verdict.Errors)
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
	return verdictOutcome(c, errs)
}

func replayVM(c record, cluster config.Cluster) outcome {
	vm := &v1.VirtualMachine{}
	errs := decode(c.VM, vm)
	if len(errs) == 0 {
		var err error
		if errs, err = judgeVM(c, vm, cluster); err != nil {
			return differs("fault: %v", err)
		}
	}
	return verdictOutcome(c, errs)
}

func judgeVM(c record, vm *v1.VirtualMachine, cluster config.Cluster) (field.ErrorList, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1.AddToScheme, appsv1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	var objects []*unstructured.Unstructured
	for _, list := range [][]unstructured.Unstructured{c.Instancetypes, c.Preferences, c.Objects} {
		for i := range list {
			objects = append(objects, &list[i])
		}
	}
	answer, err := resolve.Resolver{Cached: resolve.NewFiles(scheme, objects...)}.VM(context.Background(), vm, nil)
	var refusal *resolve.Refusal
	if errors.As(err, &refusal) {
		return refusal.Errors, nil
	}
	if err != nil {
		return nil, err
	}
	_, verdict := pipeline.ExplicitVM(vm, nil, pipeline.Input{Set: answer.Set, Presets: c.Presets, Cluster: cluster})
	return verdict.Errors, nil
}

// verdictOutcome: the same verdict, and every field that the reference names among Kiln's.
func verdictOutcome(c record, errs field.ErrorList) outcome {
	switch {
	case c.Expect.Panic != nil && len(errs) > 0:
		return outcome{listed: "KubeVirt panics"}
	case c.Expect.Allowed && len(errs) == 0:
		return outcome{agrees: true}
	case c.Expect.Allowed:
		return differs("refused: %s", errs[0].Field)
	case len(errs) == 0 && len(c.Expect.Causes) > 0:
		return differs("admitted: %s %s", c.Expect.Causes[0].Field, c.Expect.Causes[0].Message)
	case len(errs) == 0:
		return differs("admitted: stage %s", c.Expect.Stage)
	case c.Expect.Stage == "schema" || c.Expect.Stage == "decode":
		return outcome{agrees: true}
	}
	have := map[string]bool{}
	for _, err := range errs {
		have[err.Field] = true
	}
	for _, cause := range c.Expect.Causes {
		if cause.Field != "" && !have[cause.Field] && !have[truePath(cause.Field)] {
			return differs("field missing: %s", cause.Field)
		}
	}
	return outcome{agrees: true}
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

// wrongPaths are the reference's paths that do not exist, with the true ones.
var wrongPaths = strings.NewReplacer(
	"dataVolumeTemplate[", "dataVolumeTemplates[",
	"dedicatedCPUPlacement", "dedicatedCpuPlacement",
	"domain.ioThreads.count", "domain.ioThreads.supplementalPoolThreadCount",
	"spec.launchSecurity", "spec.domain.launchSecurity",
	"spec.GPUs", "spec.domain.devices.gpus",
	"spec.HostDevices", "spec.domain.devices.hostDevices",
	"spec.Sound", "spec.domain.devices.sound",
	"spec.video", "spec.domain.devices.video",
	"spec.nodeAffinity", "spec.affinity.nodeAffinity",
	"hyperv.domain.features.hyperv.", "hyperv.",
	"spec.domain.volumes[", "spec.volumes[",
)

func truePath(path string) string {
	if key, found := strings.CutPrefix(path, "annotations."); found {
		return "spec.template.metadata.annotations[" + key + "]"
	}
	return wrongPaths.Replace(path)
}
