package main

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/kilnvm/kiln/pkg/instancetype"
	"github.com/kilnvm/kiln/pkg/validate"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
	"kubevirt.io/api/instancetype/v1beta1"
)

// compareRequirements compares what a preference requires of the VMI that an instancetype and the preference made, and whether it can spread the instancetype's
// vCPUs. The reference tells the first requirement that is missed, Kiln all.
func compareRequirements(c record, set instancetype.Set, applied *v1.VirtualMachineInstance) outcome {
	o := requirementsOutcome(c, set, applied)
	if !o.agrees && o.listed == "" && len(validate.Preference(c.Preference, nil)) > 0 {
		o.listed = impossible
	}
	return o
}

// requirementsOutcome compares without regard to preferences that cannot exist. The spread is compared first,
// because KubeVirt's webhook judges it in a check of its own before the requirements.
func requirementsOutcome(c record, set instancetype.Set, applied *v1.VirtualMachineInstance) outcome {
	path := field.NewPath("spec")
	if spread := len(instancetype.CheckSpread(set, path.Child("preference"))) > 0; spread != (c.Expect.SpreadCheck != nil) {
		o := differingOutcome("spread: Kiln refuses %t", spread)
		if !spread && c.Instancetype.CPU.Guest == 1 {
			o.listed = unspreadable
		}
		return o
	}
	if c.Expect.Requirements == nil {
		return outcome{agrees: true}
	}
	missed := slices.DeleteFunc(instancetype.Requirements(set, applied, &c.Spec, path), func(err *field.Error) bool { return err.Field == "spec.preference" })
	spec, err := asUntyped(c.Spec)
	if err != nil {
		return differingOutcome("unreadable: %v", err)
	}
	written := map[string]any{"spec": map[string]any{"instancetype": true, "template": map[string]any{"spec": spec}}}
	// truePath makes of several CPU fields the path that they share.
	wanted := strings.Join(c.Expect.Requirements.Fields, ", ") // as the reference's webhook has them: several for a product
	at := truePath(cause{Field: wanted}, "spec.template.spec", written)
	o := outcome{agrees: true}
	switch found := slices.ContainsFunc(missed, func(err *field.Error) bool { return withinPath(err.Field, at) }); {
	case wanted != "" && !found:
		o = differingOutcome("requirement missing: %s: %s (Kiln: %s)", wanted, c.Expect.Requirements.Error, pathsOfErrors(missed))
	case wanted == "" && len(missed) > 0:
		o = differingOutcome("requirement added: %v", missed[0])
	}
	if countsZero(c.Expect.Requirements.Error) && c.Spec.Domain.CPU != nil && !o.agrees {
		o.listed = partialCPUs
	}
	return o
}

// impossiblePreference reports whether the case holds a preference, or a revision of one, that validation of preferences refuses, in the
// reference too.
func (j judged) impossiblePreference() bool {
	specs := []any{}
	for _, p := range j.Preferences {
		specs = append(specs, p.Object["spec"])
	}
	for _, object := range j.Objects {
		if kind, _ := lookupPath(object.Object, "data.kind").(string); strings.Contains(kind, "Preference") {
			specs = append(specs, lookupPath(object.Object, "data.spec"))
		}
	}
	return slices.ContainsFunc(specs, func(spec any) bool {
		var preference v1beta1.VirtualMachinePreferenceSpec
		raw, err := json.Marshal(spec)
		return err == nil && json.Unmarshal(raw, &preference) == nil && len(validate.Preference(&preference, nil)) > 0
	})
}
