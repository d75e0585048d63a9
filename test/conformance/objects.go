package main

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/instancetype"
	"github.com/kilnvm/kiln/pkg/pipeline"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// replayApply compares what a size and a preference make of a guest, or the fields that conflict.
func replayApply(c record, _ config.Cluster) outcome {
	if c.Expect.Panic != nil {
		return outcome{listed: "Crashes"}
	}
	vmi := &v1.VirtualMachineInstance{ObjectMeta: c.Metadata, Spec: c.Spec}
	var set instancetype.Set
	if c.Instancetype != nil {
		set.Instancetype = &instancetype.Instancetype{Source: instancetype.Source{Kind: "VirtualMachineInstancetype", Name: "it"}, Spec: *c.Instancetype}
	}
	if c.Preference != nil {
		set.Preference = &instancetype.Preference{Source: instancetype.Source{Kind: "VirtualMachinePreference", Name: "pref"}, Spec: *c.Preference}
	}
	conflicts := instancetype.Conflicts(set, vmi, field.NewPath("spec", "template"))
	if len(c.Expect.Conflicts)+len(conflicts) > 0 {
		return compareConflicts(c, conflicts)
	}
	instancetype.Apply(set, vmi)
	var want v1.VirtualMachineInstance
	if err := json.Unmarshal(c.Expect.Object, &want); err != nil {
		return differs("unreadable: %v", err)
	}
	return compareGuests(c, &want, vmi)
}

// compareConflicts: every field that the reference names must be among Kiln's, and no other.
func compareConflicts(c record, got field.ErrorList) outcome {
	var want []string
	for _, conflict := range c.Expect.Conflicts {
		want = append(want, truePath(cause{Field: conflict.Field}, "spec.template.spec", nil))
	}
	for _, path := range want {
		if slices.ContainsFunc(got, func(err *field.Error) bool { return err.Field == path }) {
			continue
		}
		o := differs("conflict missing: %s (Kiln: %s)", path, fields(got))
		if strings.HasSuffix(path, ".nodeSelector") && (len(c.Spec.NodeSelector) == 0 || len(c.Instancetype.NodeSelector) == 0) {
			o.listed = "Empty node selectors"
		}
		return o
	}
	for _, err := range got {
		if slices.Contains(want, err.Field) {
			continue
		}
		o := differs("conflict added: %s", err.Field)
		switch {
		case err.Field == "spec.template.spec.domain.cpu.maxSockets":
			o.listed = "A size's `maxSockets` and the guest's"
		case slices.ContainsFunc(want, func(path string) bool { return memoryConflict(path) }) && memoryConflict(err.Field):
			o.listed = "All memory conflicts at once"
		}
		return o
	}
	return outcome{agrees: true}
}

func memoryConflict(path string) bool {
	return within(path, "spec.template.spec.domain.memory") || path == "spec.template.spec.domain.resources.requests.memory" || path == "spec.template.spec.domain.resources.limits.memory"
}

// compareGuests compares spec, labels and annotations.
func compareGuests(c record, want, got *v1.VirtualMachineInstance) outcome {
	left, err := guestMap(want)
	if err != nil {
		return differs("unreadable: %v", err)
	}
	right, err := guestMap(got)
	if err != nil {
		return differs("unreadable: %v", err)
	}
	return explainDifferences(c, differences("", left, right))
}

// guestMap is what is compared of a guest, untyped.
func guestMap(vmi *v1.VirtualMachineInstance) (map[string]any, error) {
	return untyped(map[string]any{"spec": vmi.Spec, "labels": vmi.Labels, "annotations": vmi.Annotations})
}

func untyped(value any) (object map[string]any, err error) {
	raw, err := json.Marshal(value)
	if err == nil {
		err = json.Unmarshal(raw, &object)
	}
	return object, err
}

// replayMutate compares the mutated VMI. Of a VM, whose spec Kiln leaves as it is, it compares what the reference wrote into
// the template with the guest that the VM would boot.
func replayMutate(c record, cluster config.Cluster) outcome {
	if c.Kind == "vm" {
		return replayVMMutation(c, cluster)
	}
	if c.Operation == "UPDATE" {
		return outcome{agrees: true} // the mutating webhook of VMIs has nothing to do on updates; nor has Kiln's
	}
	vmi := &v1.VirtualMachineInstance{}
	if errs := c.decode(c.VMI, vmi); len(errs) > 0 {
		return verdict(c, c.VMI, answer{errs: errs})
	}
	var presets []v1.VirtualMachineInstancePreset
	for _, preset := range c.Presets {
		if preset.Namespace == vmi.Namespace {
			presets = append(presets, preset)
		}
	}
	in := pipeline.Input{Presets: presets, Cluster: cluster}
	explicit, given := pipeline.ExplicitVMI(vmi, in)
	if given.Allowed() && !c.Expect.Allowed {
		given = pipeline.JudgeVMI(explicit, in) // what the reference finds while it mutates, Kiln finds when it validates
	}
	if !given.Allowed() || !c.Expect.Allowed {
		return verdict(c, c.VMI, answer{errs: given.Errors})
	}
	want, err := recorded(c)
	if err != nil {
		return differs("unreadable: %v", err)
	}
	return compareGuests(c, want, explicit)
}

// recorded is the reference's object without its status, whose times are placeholders.
func recorded(c record) (*v1.VirtualMachineInstance, error) {
	var object struct {
		Metadata metav1.ObjectMeta
		Spec     v1.VirtualMachineInstanceSpec
	}
	err := json.Unmarshal(c.Expect.Object, &object)
	return &v1.VirtualMachineInstance{ObjectMeta: object.Metadata, Spec: object.Spec}, err
}

func replayVMMutation(c record, cluster config.Cluster) outcome {
	vm := &v1.VirtualMachine{}
	if errs := c.decode(c.VM, vm); len(errs) > 0 {
		return verdict(c, c.VM, answer{errs: errs})
	}
	given, err := judgeVM(c, vm, cluster)
	if err != nil {
		return differs("fault: %v", err)
	}
	if !c.Expect.Allowed {
		return verdict(c, c.VM, given)
	}
	if given.explicit == nil || given.refused {
		return differs("refused: %s %s", given.errs[0].Field, given.errs[0].Detail)
	}
	if given.explicit.Spec.Domain.Machine == nil && len(given.errs) > 0 {
		return outcome{agrees: true} // the size conflicts, which the reference finds when it validates: there is no guest
	}
	if given.unknown {
		return outcome{listed: "What is unknown is not judged"}
	}
	var before, after struct {
		Spec struct {
			Template struct {
				Metadata metav1.ObjectMeta
				Spec     map[string]any
			}
		}
	}
	if err := json.Unmarshal(c.VM, &before); err != nil {
		return differs("unreadable: %v", err)
	}
	if err := json.Unmarshal(c.Expect.Object, &after); err != nil {
		return differs("unreadable: %v", err)
	}
	explicit, err := untyped(given.explicit.Spec)
	if err != nil {
		return differs("unreadable: %v", err)
	}
	var list []difference
	for _, written := range differences("spec", before.Spec.Template.Spec, after.Spec.Template.Spec) {
		if kiln := lookup(explicit, written.path[len("spec."):]); !same(written.got, kiln) {
			list = append(list, difference{written.path, written.got, kiln})
		}
	}
	return explainDifferences(c, list)
}
