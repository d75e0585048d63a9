package admit

import (
	"maps"
	"reflect"
	"slices"
	"strconv"

	"github.com/kilnvm/kiln/pkg/instancetype"
	"github.com/kilnvm/kiln/pkg/internal/leaves"
	"k8s.io/apimachinery/pkg/api/equality"
	v1 "kubevirt.io/api/core/v1"
	"kubevirt.io/api/instancetype/v1beta1"
)

// Running stage 1 without a field of a preference shows what the field does. It is not enough to compare the fields of the VMI with the fields of the
// preference: a default turns 'relaxed: {}' of a preference into 'enabled: true' of the VMI, and a VMI may be refused without 'preferredSmm: {}'.

// trial returns the explained VMI and its verdict for another input.
type trial func(Input) (*v1.VirtualMachineInstance, Verdict)

func trialOf(vm *v1.VirtualMachine) trial {
	return func(in Input) (*v1.VirtualMachineInstance, Verdict) { return VM(vm, nil, in) }
}

// fieldsWithoutEffect returns the fields of the preference without which VMI and verdict are the same, each with its reasons. It runs stage 1 once for each
// field, which would be too slow for admission.
func fieldsWithoutEffect(in Input, origin Origin, facts []Fact, try trial) (skipped []Skipped) {
	if in.Set.Preference == nil {
		return nil
	}
	guest, verdict := try(in)
	set, rest := in.Set, *in.Set.Preference
	rest.Spec = *rest.Spec.DeepCopy()
	in.Set.Preference = &rest
	withoutEachField(&rest.Spec, func(field leaves.Leaf) {
		if other, judged := try(in); !verdict.sameMessages(judged) || !sameGuest(guest, other) {
			return
		}
		for _, reason := range noEffectReasons(set, field, facts) {
			skipped = append(skipped, Skipped{origin, field.Path, reason})
		}
	})
	return skipped
}

// sameMessages reports whether two verdicts have the same errors and warnings in the same order.
func (v Verdict) sameMessages(other Verdict) bool {
	texts := func(v Verdict) (all []string) {
		for _, err := range v.Errors {
			all = append(all, err.Error())
		}
		return all
	}
	return slices.Equal(texts(v), texts(other)) && slices.Equal(v.Warnings, other.Warnings)
}

func sameGuest(a, b *v1.VirtualMachineInstance) bool {
	return maps.Equal(a.Annotations, b.Annotations) && equality.Semantic.DeepEqual(a.Spec, b.Spec)
}

// markPreferenceEffects adds the preference to the origins of values that come from elsewhere, and would differ without the preference. vmi is the VMI before
// stage 1.
func (h history) markPreferenceEffects(vmi *v1.VirtualMachineInstance, in Input, preference Origin) {
	in.Set = instancetype.Set{Instancetype: in.Set.Instancetype, Architecture: in.Set.Architecture}
	expandVMI(vmi, in, nil)
	without := map[string]string{}
	for _, l := range append(labelLeaves(vmi), guestLeaves(vmi)...) {
		without[l.Key] = l.Text()
	}
	for key, was := range h {
		value, found := without[key]
		if was.origin.Kind != FromUser && was.origin.Kind != FromPreference && (!found || value != was.value) {
			was.origin.Because = &preference
			h[key] = was
		}
	}
}

// withoutEachField takes one field after the other out of a preference, calls visit, and puts the field back. Fields are values, empty objects, elements of
// lists and keys of maps.
func withoutEachField(spec *v1beta1.VirtualMachinePreferenceSpec, visit func(leaves.Leaf)) {
	taker(visit).takeBelow(leaves.Leaf{}, reflect.ValueOf(spec).Elem())
}

type taker func(leaves.Leaf)

// takeBelow reports whether a field is set at or below a value.
func (t taker) takeBelow(at leaves.Leaf, v reflect.Value) (found bool) {
	switch {
	case leaves.Whole(v.Type()):
		return t.takeValue(at, v)
	case v.Kind() == reflect.Pointer:
		return !v.IsNil() && (v.Type().Elem().Kind() == reflect.Struct && t.takeBelow(at, v.Elem()) || t.takeValue(at, v))
	case v.Kind() == reflect.Struct:
		for _, f := range leaves.Fields(v.Type()) {
			found = t.takeBelow(at.Below(f.Name), v.Field(f.Index)) || found
		}
		return found
	case v.Kind() == reflect.Slice:
		return t.takeElements(at, v)
	case v.Kind() == reflect.Map:
		return t.takeKeys(at, v)
	}
	return t.takeValue(at, v)
}

// takeValue takes out a field that has no fields below it.
func (t taker) takeValue(at leaves.Leaf, v reflect.Value) bool {
	if v.IsZero() {
		return false
	}
	was := reflect.ValueOf(v.Interface())
	at.Value = reflect.Indirect(was).Interface()
	v.SetZero()
	t(at)
	v.Set(was)
	return true
}

func (t taker) takeElements(at leaves.Leaf, v reflect.Value) bool {
	was := reflect.ValueOf(v.Interface())
	for i := range was.Len() {
		v.Set(reflect.AppendSlice(reflect.AppendSlice(reflect.MakeSlice(v.Type(), 0, was.Len()), was.Slice(0, i)), was.Slice(i+1, was.Len())))
		t(leaves.Leaf{Path: at.Path + "[" + strconv.Itoa(i) + "]", Value: was.Index(i).Interface()})
	}
	v.Set(was)
	return was.Len() > 0
}

func (t taker) takeKeys(at leaves.Leaf, v reflect.Value) bool {
	for _, key := range leaves.SortedKeys(v, v) {
		was := v.MapIndex(key)
		v.SetMapIndex(key, reflect.Value{})
		t(leaves.Leaf{Path: at.Path + "[" + key.String() + "]", Value: was.Interface()})
		v.SetMapIndex(key, was)
	}
	return v.Len() > 0
}
