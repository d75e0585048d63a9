package presetmigration

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/kilnvm/kiln/internal/workbench"
	"github.com/kilnvm/kiln/internal/workbench/guestdiff"
	"github.com/kilnvm/kiln/internal/workbench/manifest"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	v1 "kubevirt.io/api/core/v1"
)

// compareGuest runs stage 1 on a VM or VMI with the presets and with the profiles, and compares the results.
func (m *migration) compareGuest(ctx context.Context, object manifest.Object) (Guest, error) {
	done := newGuest(object)
	if object.Fault != nil {
		return done, object.Fault
	}
	if object.Stored && object.GetKind() == v1.VirtualMachineInstanceGroupVersionKind.Kind {
		done.State = Stored
		return done, nil
	}
	object, done.Pinned = withoutPins(object)
	before, err := m.reviewSide(ctx, 0, object)
	if err != nil {
		return done, err
	}
	after, err := m.reviewSide(ctx, 1, object)
	if err != nil {
		return done, err
	}
	if refused := m.setUncomparable(&done, before, after); refused {
		return done, nil
	}
	done.Presets = m.fillingPresets(before)
	equalVMIs, err := m.sameVMIs(before, after, "")
	if err != nil {
		return done, err
	}
	equalDomains, rendered, err := m.compareDomains(ctx, before, after)
	done.Rendered = rendered
	if err != nil {
		return done, err
	}
	if done.State = Equal; equalVMIs && equalDomains {
		return done, nil
	}
	done.State = Differs
	if done.Fields, err = m.differingFields(ctx, before, after); err != nil {
		return done, err
	}
	done.Remedy, err = m.findRemedy(ctx, object, before, done.Fields)
	return done, err
}

// reviewSide runs stage 1 on one object of a side.
func (m *migration) reviewSide(ctx context.Context, side int, object manifest.Object) (workbench.Reviewed, error) {
	in := m.sides[side]
	in.Named = []manifest.Object{object}
	reviewed, err := m.Review(ctx, in, nil)
	switch {
	case err != nil:
		return workbench.Reviewed{}, err
	case len(reviewed.Objects) != 1:
		return workbench.Reviewed{}, errors.New("it is not a VirtualMachine or VirtualMachineInstance of a version that Kiln serves")
	}
	return reviewed.Objects[0], reviewed.Objects[0].Fault
}

// setUncomparable sets the state of an object that has no VMI to compare on one side or both. It reports whether it set the state.
func (m *migration) setUncomparable(done *Guest, before, after workbench.Reviewed) bool {
	allowed := [2]bool{before.Verdict.Allowed(), after.Verdict.Allowed()}
	switch {
	case !allowed[0] && !allowed[1]:
		done.State = Rejected
	case !allowed[0] || !allowed[1]:
		done.State = Differs
		sides := map[bool]string{true: "with the presets", false: "with the profiles"}
		for _, e := range slices.Concat(before.Verdict.Errors, after.Verdict.Errors) {
			done.Causes = append(done.Causes, fmt.Sprintf("rejected only %s: %v", sides[!allowed[0]], e))
		}
	case before.Unknown || after.Unknown:
		done.State = Unknown
		done.Causes = append(done.Causes, before.Remedy())
	case before.Guest == nil: // a VM without a template, which validate.VM refuses
		done.State = Equal
	default:
		return false
	}
	return true
}

// fillingPresets returns the names of the migrated presets that fill something in a VMI, sorted.
func (m *migration) fillingPresets(r workbench.Reviewed) []string {
	names := []string{}
	for key := range r.Guest.Explicit.Annotations {
		if name := m.marks[r.GetNamespace()][key]; name != "" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// sameVMIs reports whether two VMIs have the same spec, labels and annotations. It ignores the marks of the migrated presets and one more
// annotation.
func (m *migration) sameVMIs(before, after workbench.Reviewed, annotation string) (bool, error) {
	var texts [2][]byte
	for i, r := range []workbench.Reviewed{before, after} {
		vmi := r.Guest.Explicit
		annotations := maps.Clone(vmi.Annotations)
		maps.DeleteFunc(annotations, func(key, _ string) bool { return key == annotation || m.marks[vmi.Namespace][key] != "" })
		if len(annotations) == 0 {
			annotations = nil
		}
		var err error
		compared := v1.VirtualMachineInstance{ObjectMeta: metav1.ObjectMeta{Labels: vmi.Labels, Annotations: annotations}, Spec: vmi.Spec}
		if texts[i], err = json.Marshal(compared); err != nil {
			return false, err
		}
	}
	return bytes.Equal(texts[0], texts[1]), nil
}

// compareDomains compares the libvirt domains as 'diff' does: the VMI with the profiles is the next version of the VMI with the presets. rendered is false if
// a domain cannot be rendered. Then equal is true, because the reason is in the VMI: equal VMIs have equal domains.
func (m *migration) compareDomains(ctx context.Context, before, after workbench.Reviewed) (equal, rendered bool, err error) {
	if before.Guest.Unreadable != nil { // the record of the last boot, which both sides read
		return true, false, nil
	}
	difference, err := guestdiff.Compare(ctx, m.Bench, guestdiff.Side{Reviewed: before}, guestdiff.Side{Reviewed: after})
	if refusal := (*workbench.Refusal)(nil); errors.As(err, &refusal) {
		return true, false, nil
	}
	return difference.Domain == "", err == nil, err
}
