package rehearsal

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/kilnvm/kiln/internal/objects"
	"github.com/kilnvm/kiln/internal/pin"
	"github.com/kilnvm/kiln/internal/workbench"
	"github.com/kilnvm/kiln/internal/workbench/audit"
	"github.com/kilnvm/kiln/internal/workbench/crdschema"
	"github.com/kilnvm/kiln/internal/workbench/guestdiff"
	"github.com/kilnvm/kiln/internal/workbench/manifest"
	"github.com/kilnvm/kiln/pkg/record"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// side is the cluster or the dump before or after the changes.
type side struct {
	bench *workbench.Bench
	in    manifest.Inputs
}

// reviewOne reviews a VM or VMI: as a stored object, or as a request of its owner. old is the stored VM of an update, or nil.
func (s side) reviewOne(ctx context.Context, object manifest.Object, stored bool, old *v1.VirtualMachine) (workbench.Reviewed, error) {
	object.Stored = stored
	in := s.in
	in.Named = []manifest.Object{object}
	all, err := s.bench.Review(ctx, in, old)
	switch {
	case err != nil:
		return workbench.Reviewed{}, err
	case len(all.Objects) != 1:
		return workbench.Reviewed{}, fmt.Errorf("%s is of version '%s', which Kiln does not judge", object.Name(), object.GetAPIVersion())
	case all.Objects[0].Fault != nil:
		return all.Objects[0], &unjudged{strings.TrimPrefix(all.Objects[0].Fault.Error(), object.Name()+": ")}
	}
	return all.Objects[0], nil
}

// unjudged is the error of a VM without a verdict. Other errors end a rehearsal.
type unjudged struct{ reason string }

func (u *unjudged) Error() string { return u.reason }

// judgeVM rehearses one VM. The result has a reason instead of a verdict if the VM cannot be judged.
func (h *rehearser) judgeVM(ctx context.Context, vm manifest.Object) (*Result, error) {
	result, err := h.compare(ctx, vm)
	var without *unjudged
	if errors.As(err, &without) {
		return &Result{Verdict: Unjudged, Reason: without.reason}, nil
	}
	return result, err
}

// compareVM compares the guests of a VM before and after the changes, and reviews the requests that would change it.
func (h *rehearser) compareVM(ctx context.Context, vm manifest.Object) (*Result, error) {
	before, err := h.before.reviewOne(ctx, vm, true, nil)
	switch {
	case err != nil:
		return nil, err
	case len(before.LostPins) > 0:
		return nil, &unjudged{lostPins(before)}
	case before.Guest == nil && before.Verdict.Allowed():
		return nil, &unjudged{"it has no template"}
	case !before.Verdict.Allowed():
		return &Result{Verdict: AlreadyRefused, Before: refusalsOf(before, nil, audit.OnStart)}, nil
	case before.Unknown:
		return nil, &unjudged{cannotBoot(before)}
	}
	if err := before.Guest.Unreadable; err != nil {
		return nil, &unjudged{err.Error()}
	}
	planned, err := repinned(vm)
	if err != nil {
		return nil, err
	}
	after, err := h.after.reviewOne(ctx, planned, false, before.Guest.VM)
	if err != nil {
		return nil, err
	}
	result := &Result{Verdict: Same, Refusals: refusalsOf(after, nil, audit.OnChange)}
	if after.Unknown {
		result.Refusals = refusalsOf(after.Incomplete(), result.Refusals, audit.OnChange)
	}
	if after.Verdict.Allowed() && !after.Unknown {
		if err := h.compareGuests(ctx, before, after, result); err != nil {
			return nil, err
		}
	}
	if err := h.addRefusals(ctx, h.after, after, result); err != nil {
		return nil, err
	}
	if err := h.splitRefusals(ctx, vm, before, result); err != nil {
		return nil, err
	}
	result.Causes = h.causesOf(before, after, result)
	return result, nil
}

// lostPins returns the reason why a VM whose revisions are missing has no verdict.
func lostPins(r workbench.Reviewed) string {
	return "it is pinned to revisions that are missing: " + strings.Join(r.LostPins, ", ")
}

// cannotBoot returns the reason why a VM that refers to missing objects has no verdict.
func cannotBoot(r workbench.Reviewed) string {
	return "it cannot boot: " + r.Incomplete().Verdict.Errors.ToAggregate().Error()
}

// repinned returns a VM that asks for new pins, as 'kubectl kiln repin' sends it.
func repinned(vm manifest.Object) (manifest.Object, error) {
	vm.Unstructured = vm.DeepCopy()
	return vm, pin.RequestRepin(vm.Unstructured)
}

// compareGuests sets the verdict, with what the guest notices. Stages 2 and 3 may refuse the guest after the changes: then its start fails.
func (h *rehearser) compareGuests(ctx context.Context, before, after workbench.Reviewed, result *Result) error {
	d, err := guestdiff.CompareHardware(ctx, h.after.bench, guestdiff.Side{Reviewed: before}, guestdiff.Side{Reviewed: after})
	var refusal *workbench.Refusal
	if errors.As(err, &refusal) {
		if _, err := h.before.bench.Render(ctx, before, workbench.Rendering{Stage: workbench.StageBackend}); err != nil {
			return &unjudged{"its guest cannot be rendered without the changes: " + err.Error()}
		}
		result.Refusals = refusalsOf(refusal.Guest, result.Refusals, audit.OnStart)
		return nil
	}
	if err != nil {
		return &unjudged{err.Error()}
	}
	result.Changes, result.Rollout = d.Changes, d.Rollout
	if len(result.Changes) == 0 {
		result.Changes = nil
	}
	rolled := d.Rollout
	result.Verdict = verdictOn(d.Verdict, d.Changes)
	switch {
	case result.Verdict.Rank() >= Restart.Rank() || rolled == nil:
	case len(rolled.Restart)+len(rolled.Open) > 0: // KubeVirt sets condition RestartRequired, whatever the guest sees
		result.Verdict = Restart
	case len(rolled.Live)+len(rolled.Migrating) > 0:
		result.Verdict = Live
	}
	if rolled != nil && len(rolled.Live)+len(rolled.Migrating)+len(rolled.Open)+len(rolled.Restart) == 0 {
		result.Rollout = nil
	}
	stored, _ := after.Guest.Stored()
	result.Pins = plannedPins(pin.Read(stored))
	return nil
}

// verdictOn returns the verdict on a VM whose guest notices these changes. judged is the worst of their verdicts, or less if KubeVirt makes them live.
func verdictOn(judged record.Verdict, changes []record.Change) Verdict {
	switch {
	case judged == record.Breaks:
		return Breaks
	case judged == record.NeedsRestart:
		return Restart
	case len(changes) > 0:
		return Live
	}
	return Same
}

// addRefusals adds why a create of a VM and the VMI of its start would be refused.
func (h *rehearser) addRefusals(ctx context.Context, at side, vm workbench.Reviewed, result *Result) error {
	created, err := at.reviewOne(ctx, vm.Object, false, nil)
	if err != nil {
		return err
	}
	result.Refusals = refusalsOf(created, result.Refusals, audit.OnCreate)
	if vm.Unknown || !vm.Verdict.Allowed() || vm.Guest == nil {
		return nil
	}
	started, err := at.reviewStart(ctx, vm)
	if err == nil {
		result.Refusals = refusalsOf(started, result.Refusals, audit.OnStart)
	}
	return err
}

// reviewStart reviews the VMI that a controller creates for a VM. The VMI has the fields of the instancetype and the preference already, as KubeVirt's
// controller sends it, so the VM is read without them. The revisions of other new pins exist by then.
func (s side) reviewStart(ctx context.Context, vm workbench.Reviewed) (workbench.Reviewed, error) {
	scheme, err := crdschema.Scheme()
	if err != nil {
		return vm, err
	}
	stored, drafts := vm.Guest.Stored()
	pins := pin.Read(stored)
	pins.Instancetype, pins.Preference = "", ""
	owner, vmi := stored.DeepCopy(), vm.Guest.Explicit.DeepCopy()
	pin.Write(owner, pins)
	pin.Write(vmi, pins)
	owner.Spec.Instancetype, owner.Spec.Preference = nil, nil
	vmi.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(owner, v1.VirtualMachineGroupVersionKind)}
	start, err := untyped(vmi, v1.VirtualMachineInstanceGroupVersionKind)
	if err != nil {
		return vm, err
	}
	as, err := untyped(owner, v1.VirtualMachineGroupVersionKind)
	if err != nil {
		return vm, err
	}
	exist := []*unstructured.Unstructured{as}
	for _, draft := range drafts {
		written, err := untyped(draft.Object(), appsv1.SchemeGroupVersion.WithKind("ControllerRevision"))
		if err != nil {
			return vm, err
		}
		exist = append(exist, written)
	}
	s.in.Reader = objects.Layers{objects.New(scheme, exist...), s.in.Reader}
	return s.reviewOne(ctx, manifest.Stored(start), true, nil)
}

// untyped converts an object of a kind.
func untyped(object any, kind schema.GroupVersionKind) (*unstructured.Unstructured, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	one := &unstructured.Unstructured{Object: content}
	one.SetGroupVersionKind(kind)
	return one, err
}

// splitRefusals moves the refusals that exist without the changes to Before. Without refusals nothing is reviewed again.
func (h *rehearser) splitRefusals(ctx context.Context, vm manifest.Object, before workbench.Reviewed, result *Result) error {
	if len(result.Refusals) > 0 {
		unchanged, err := h.before.reviewOne(ctx, vm, false, before.Guest.VM)
		if err != nil {
			return err
		}
		was := &Result{Refusals: refusalsOf(unchanged, nil, audit.OnChange)}
		if err := h.addRefusals(ctx, h.before, unchanged, was); err != nil {
			return err
		}
		result.subtract(was.Refusals)
	}
	if len(result.Refusals) > 0 {
		result.Verdict = Refused
	}
	return nil
}

// subtract moves the requests that are refused without the changes from Refusals to Before.
func (r *Result) subtract(was []Refusal) {
	var caused []Refusal
	for _, refusal := range r.Refusals {
		same := func(o Refusal) bool {
			return o.Rule == refusal.Rule && o.Policy == refusal.Policy && o.Field == refusal.Field
		}
		existed := refusal
		existed.Refuses = nil
		if at := slices.IndexFunc(was, same); at >= 0 {
			existed.Refuses = slices.DeleteFunc(slices.Clone(refusal.Refuses), func(request string) bool { return !slices.Contains(was[at].Refuses, request) })
		}
		refusal.Refuses = slices.DeleteFunc(slices.Clone(refusal.Refuses), func(request string) bool { return slices.Contains(existed.Refuses, request) })
		if len(existed.Refuses) > 0 {
			r.Before = append(r.Before, existed)
		}
		if len(refusal.Refuses) > 0 {
			caused = append(caused, refusal)
		}
	}
	r.Refusals = caused
}

// mostRefusals is how many refusals of one VM are kept. A hostile VM may have a thousand.
const mostRefusals = 20

// refusalsOf adds the errors of a review to refusals, as refusals of a request.
func refusalsOf(r workbench.Reviewed, refusals []Refusal, request string) []Refusal {
	for _, err := range r.Verdict.Errors {
		one := Refusal{Rule: ruleOf(err), Field: err.Field, Message: err.ErrorBody(), Refuses: []string{request}}
		for _, v := range r.Policies.Violations {
			if v.Err == err {
				one.Policy, one.Message = v.Policy, v.Message
			}
		}
		for _, f := range r.Policies.Failures {
			if f.Err == err {
				one.Policy = f.Policy
			}
		}
		path := strings.TrimPrefix(one.Field, "spec.template.")
		at := slices.IndexFunc(refusals, func(o Refusal) bool {
			return o.Rule == one.Rule && o.Policy == one.Policy && (o.Field == one.Field || strings.TrimPrefix(o.Field, "spec.template.") == path)
		})
		switch {
		case at < 0 && len(refusals) < mostRefusals:
			refusals = append(refusals, one)
		case at >= 0 && !slices.Contains(refusals[at].Refuses, request):
			refusals[at].Refuses = append(refusals[at].Refuses, request)
		}
	}
	return refusals
}

// ruleOf returns the rule of an error. A missing object and what stages 2 and 3 refuse have none.
func ruleOf(err *field.Error) string {
	switch {
	case err.Origin != "":
		return err.Origin
	case err.Type == field.ErrorTypeNotFound:
		return "reference"
	}
	return "render"
}
