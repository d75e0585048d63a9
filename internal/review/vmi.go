package review

import (
	"cmp"
	"context"
	"slices"

	"github.com/kilnvm/kiln/internal/resolve"
	"github.com/kilnvm/kiln/pkg/admit"
	"github.com/kilnvm/kiln/pkg/record"
	v1 "kubevirt.io/api/core/v1"
)

// VMI is a VMI after its review.
type VMI struct {
	// Verdict is on the merge of the VMI with what it is pinned to and, if that succeeds, on the explicit VMI.
	admit.Verdict
	// Explicit is the VMI that boots.
	Explicit *v1.VirtualMachineInstance
	// Resolved is what the VMI is pinned to.
	Resolved resolve.Resolution
	// Input is what the engine made the VMI explicit by.
	Input admit.Input
	// Merged is the part of the verdict that comes from making the VMI explicit. Judge on the explicit VMI returns the rest again.
	Merged admit.Verdict

	given *v1.VirtualMachineInstance
}

// VMI reviews a VMI that is created. The VMI must have its namespace. An error means that there is no verdict.
func (r Reviewer) VMI(ctx context.Context, vmi *v1.VirtualMachineInstance, asker Asker) (VMI, error) {
	reviewed, now := VMI{given: vmi}, r.Configuration()
	resolver := r.resolver(now)
	var err error
	if reviewed.Resolved, err = resolver.VMI(ctx, vmi); err != nil {
		return reviewed, err
	}
	reviewed.Input, err = resolver.Input(ctx, vmi.Namespace, reviewed.Resolved, now)
	if err = cmp.Or(err, ctx.Err()); err != nil {
		return reviewed, err
	}
	reviewed.Input.User = asker.Name
	reviewed.Explicit, reviewed.Merged = admit.VMI(vmi, reviewed.Input)
	reviewed.Merged.Warnings = slices.Concat(reviewed.Resolved.Warnings, reviewed.Merged.Warnings)
	reviewed.Verdict = reviewed.Merged
	if reviewed.Allowed() {
		judged := admit.Judge(reviewed.Explicit, reviewed.Input)
		reviewed.Errors, reviewed.Warnings = judged.Errors, slices.Concat(reviewed.Merged.Warnings, judged.Warnings)
	}
	return reviewed, ctx.Err()
}

// Judge reviews a VMI that is explicit already, such as one that another webhook changed after it was made explicit.
func (r Reviewer) Judge(explicit *v1.VirtualMachineInstance, asker Asker) admit.Verdict {
	return admit.Judge(explicit, admit.Input{Cluster: r.Configuration(), User: asker.Name})
}

// Explain returns where each field of the VMI comes from. owner is the VM that it was made of and frozen the record of its hardware, each nil
// where there is none. The VMI must be allowed.
func (v VMI) Explain(owner *v1.VirtualMachine, frozen *record.Record) admit.Explanation {
	if owner == nil {
		return admit.ExplainVMI(v.given, v.Input)
	}
	return admit.ExplainGuest(v.Explicit, resolve.Effective(owner, v.Resolved.Pins), frozen, v.Input)
}
