package main

import (
	"encoding/json"
	"slices"

	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/instancetype"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// replayApply compares what an instancetype and a preference make of a VMI, or the fields that conflict.
func replayApply(c record, _ config.Cluster) outcome {
	if c.Expect.Panic != nil {
		return outcome{listed: crashes}
	}
	vmi := &v1.VirtualMachineInstance{ObjectMeta: c.Metadata, Spec: c.Spec}
	set := sizesOf(c)
	conflicts := instancetype.Conflicts(set, vmi, field.NewPath("spec", "template"))
	if len(c.Expect.Conflicts)+len(conflicts) > 0 {
		return compareConflicts(c, conflicts)
	}
	instancetype.Apply(set, c.version, vmi)
	// A check of its own: both sides could agree on a topology that is not what the instancetype gives.
	if cpu := vmi.Spec.Domain.CPU; c.Instancetype != nil && cpu.Sockets*cpu.Cores*cpu.Threads != c.Instancetype.CPU.Guest {
		return differingOutcome("%d sockets, %d cores, %d threads are not the vCPUs of the size", cpu.Sockets, cpu.Cores, cpu.Threads)
	}
	required := outcome{agrees: true}
	if c.Preference != nil {
		required = compareRequirements(c, set, vmi)
	}
	if !required.isAccountedFor() {
		return required
	}
	var want v1.VirtualMachineInstance
	if err := json.Unmarshal(c.Expect.Object, &want); err != nil {
		return differingOutcome("unreadable: %v", err)
	}
	if o := compareGuests(c, &want, vmi); !o.agrees {
		return o
	}
	return required
}

// sizesOf returns the instancetype and preference of a case.
func sizesOf(c record) (set instancetype.Set) {
	if c.Instancetype != nil {
		set.Instancetype = &instancetype.Instancetype{Source: instancetype.Source{Kind: instancetype.Kinds.Namespaced, Name: "it"}, Spec: *c.Instancetype}
	}
	if c.Preference != nil {
		set.Preference = &instancetype.Preference{Source: instancetype.Source{Kind: instancetype.PreferenceKinds.Namespaced, Name: "pref"}, Spec: *c.Preference}
	}
	return set
}

// compareConflicts: every field that the reference names must be among Kiln's, and no other.
// Messages are not compared, since the two implementations have their own.
func compareConflicts(c record, got field.ErrorList) outcome {
	var want []string
	for _, conflict := range c.Expect.Conflicts {
		path := truePath(cause{Field: conflict.Field}, "spec.template.spec", nil)
		if want = append(want, path); !slices.ContainsFunc(got, func(err *field.Error) bool { return err.Field == path }) {
			return differingOutcome("conflict missing: %s (Kiln: %s)", path, pathsOfErrors(got))
		}
	}
	o := outcome{agrees: true}
	for _, err := range got {
		if slices.Contains(want, err.Field) {
			continue
		}
		switch listed := addedConflict(err.Field, want); {
		case listed == "":
			return differingOutcome("conflict added: %s", err.Field)
		case o.agrees:
			o = differingOutcome("conflict added: %s", err.Field)
			o.listed = listed
		}
	}
	return o
}

// addedConflict is the deviation by which Kiln reports a conflict that the reference does not.
// It returns the empty string for a conflict that no deviation explains.
func addedConflict(path string, want []string) string {
	switch {
	case path == "spec.template.spec.domain.cpu.maxSockets":
		return ceilingConflict
	case memoryConflict(path) && slices.ContainsFunc(want, memoryConflict):
		return memoryConflicts
	}
	return ""
}

// Deviations of conflicts.
const (
	ceilingConflict = "`maxSockets` of an instancetype and of the VM"
	memoryConflicts = "All memory conflicts at once"
)

// memoryConflict reports whether a path is one of the places at which a VM can give its memory, each of which conflicts with an instancetype.
func memoryConflict(path string) bool {
	return withinPath(path, "spec.template.spec.domain.memory") || path == "spec.template.spec.domain.resources.requests.memory" ||
		path == "spec.template.spec.domain.resources.limits.memory"
}

// compareGuests compares spec, labels and annotations.
func compareGuests(c record, want, got *v1.VirtualMachineInstance) outcome {
	left, err := guestMap(want)
	if err != nil {
		return differingOutcome("unreadable: %v", err)
	}
	right, err := guestMap(got)
	if err != nil {
		return differingOutcome("unreadable: %v", err)
	}
	return explainDifferences(c, differencesBetween("", left, right))
}

// guestMap is what is compared of a VMI, untyped.
func guestMap(vmi *v1.VirtualMachineInstance) (map[string]any, error) {
	return asUntyped(map[string]any{"spec": vmi.Spec, "labels": vmi.Labels, "annotations": vmi.Annotations})
}

// asUntyped returns a value as JSON decodes it: numbers become float64, and fields that omitempty leaves out are absent.
func asUntyped(value any) (object map[string]any, err error) {
	raw, err := json.Marshal(value)
	if err == nil {
		err = json.Unmarshal(raw, &object)
	}
	return object, err
}
