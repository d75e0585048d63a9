package review

import (
	"context"
	"errors"
	"slices"

	"github.com/kilnvm/kiln/internal/resolve"
	"github.com/kilnvm/kiln/pkg/admit"
	"github.com/kilnvm/kiln/pkg/policy"
	"github.com/kilnvm/kiln/pkg/record"
	v1 "kubevirt.io/api/core/v1"
)

// VMI is a VMI after its review.
type VMI struct {
	// Verdict is the judgement on making the VMI explicit and, if that succeeds, on the explicit VMI.
	admit.Verdict
	// Explicit is the VMI that boots.
	Explicit *v1.VirtualMachineInstance
	// Resolved contains the objects that the VMI is pinned to.
	Resolved resolve.Resolution
	// Input is the input with which the engine made the VMI explicit.
	Input admit.Input
	// Merged is the part of the verdict that comes from making the VMI explicit. ReviewExplicitVMI returns the rest again.
	Merged admit.Verdict
	// Policies is the result of the GuestPolicies. The verdict contains its errors and warnings, too.
	Policies policy.Result

	given *v1.VirtualMachineInstance
	// unjudged reports that the policies have not judged the VM with what the VMI is pinned to.
	unjudged bool
}

// ReviewVMI reviews a VMI that is created. The VMI must have its namespace. An error means that there is no verdict.
func (r Reviewer) ReviewVMI(ctx context.Context, vmi *v1.VirtualMachineInstance, asker Asker) (VMI, error) {
	reviewed, err := r.runVMIStage1(ctx, vmi, asker)
	if err == nil {
		err = r.judgeVMIByPolicies(ctx, &reviewed, asker)
	}
	return reviewed, err
}

// PrepareVMI reviews a VMI for the mutating webhook: it is about to be stored as Explicit. Policies judge it only if it is refused anyway, see PrepareVM, or if
// it is pinned here before its VM, because ReviewExplicitVMI cannot see who wrote the pins.
func (r Reviewer) PrepareVMI(ctx context.Context, vmi *v1.VirtualMachineInstance, asker Asker) (VMI, error) {
	reviewed, err := r.runVMIStage1(ctx, vmi, asker)
	if err == nil && (!reviewed.Allowed() || reviewed.unjudged) {
		err = r.judgeVMIByPolicies(ctx, &reviewed, asker)
	}
	return reviewed, err
}

// runVMIStage1 reviews a VMI without the policies.
func (r Reviewer) runVMIStage1(ctx context.Context, vmi *v1.VirtualMachineInstance, asker Asker) (VMI, error) {
	now := r.Configuration()
	vmi, owner, err := r.kubeVirtOrNone().Inherit(ctx, r.Resolver, vmi, asker.Name, now.Limits)
	if err != nil {
		return VMI{}, err
	}
	reviewed, resolver := VMI{given: vmi}, r.resolverFor(now)
	if reviewed.Resolved, err = resolver.VMI(ctx, vmi); err != nil {
		return reviewed, err
	}
	reviewed.unjudged = r.kubeVirtOrNone().CompletePins(ctx, resolver, owner, vmi, &reviewed.Resolved)
	reviewed.Input, err = resolver.Input(ctx, vmi.Namespace, reviewed.Resolved, now)
	var unreadable *resolve.Refusal
	if errors.As(err, &unreadable) {
		reviewed.Explicit, reviewed.Merged.Errors = vmi.DeepCopy(), unreadable.Errors
		reviewed.Verdict = reviewed.Merged
		return reviewed, ctx.Err()
	}
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return reviewed, err
	}
	reviewed.Input.User = asker.Name
	reviewed.Explicit, reviewed.Merged = admit.VMI(vmi, reviewed.Input)
	if err := r.kubeVirtOrNone().CheckExpansion(owner, reviewed.Merged.Errors); err != nil {
		return reviewed, err
	}
	if reviewed.Merged.Allowed() && !r.Stored { // a stored VMI has its addresses already
		warnings, err := r.kubeVirtOrNone().PlaceDevices(ctx, r.Resolver, owner, reviewed.Explicit)
		if err != nil {
			return reviewed, err
		}
		reviewed.Merged.Warnings = append(reviewed.Merged.Warnings, warnings...)
	}
	reviewed.Merged.Warnings = slices.Concat(reviewed.Resolved.Warnings, reviewed.Merged.Warnings)
	reviewed.Verdict = reviewed.Merged
	if reviewed.Allowed() {
		judged := r.judgeExplicit(reviewed.Explicit, vmi, reviewed.Input)
		reviewed.Errors, reviewed.Warnings = judged.Errors, slices.Concat(reviewed.Merged.Warnings, judged.Warnings)
	}
	return reviewed, ctx.Err()
}

// ReviewExplicitVMI reviews a VMI that is explicit already, for the validating webhook: another webhook may have changed it since it was made explicit. An
// error means that there is no verdict.
func (r Reviewer) ReviewExplicitVMI(ctx context.Context, explicit *v1.VirtualMachineInstance, asker Asker) (admit.Verdict, error) {
	reviewed := VMI{given: explicit, Explicit: explicit, Input: admit.Input{Cluster: r.Configuration(), User: asker.Name}}
	reviewed.Verdict = r.judgeExplicit(explicit, explicit, reviewed.Input)
	policies, err := r.CurrentPolicies()
	if err != nil || len(policies) == 0 { // only policies read what the VMI is pinned to
		return reviewed.Verdict, err
	}
	if reviewed.Resolved, err = r.resolverFor(reviewed.Input.Cluster).VMI(ctx, explicit); err == nil {
		err = r.judgeVMIByPolicies(ctx, &reviewed, asker)
	}
	return reviewed.Verdict, err
}

// Rejudged reports whether ReviewExplicitVMI finds all mistakes of a VMI again that was made explicit.
func (v VMI) Rejudged() bool { return !v.unjudged }

// Explain returns where each field of the VMI comes from. owner is the VM of the VMI and frozen the record of its hardware; each may be nil. The
// VMI must be allowed.
func (v VMI) Explain(owner *v1.VirtualMachine, frozen *record.Record) admit.Explanation {
	if owner == nil {
		return admit.ExplainVMI(v.given, v.Input)
	}
	return admit.ExplainGuest(v.Explicit, resolve.EffectiveVM(owner, v.Resolved.Pins), frozen, v.Input)
}
