package guestdiff

import (
	"github.com/kilnvm/kiln/internal/workbench"
	"github.com/kilnvm/kiln/pkg/instancetype"
	"github.com/kilnvm/kiln/pkg/record"
	"github.com/kilnvm/kiln/pkg/validate"
	v1 "kubevirt.io/api/core/v1"
)

// addRollout sets Rollout if KubeVirt runs the guest. KubeVirt compares templates with instancetype and preference applied, because the other steps that
// complete a VMI ran when the VMI was created. A VMI without a VM cannot be changed, and has no rollout.
func (d *Difference) addRollout(before, after workbench.Reviewed) {
	limits := after.Guest.Input.Cluster.Limits
	if !limits.KubeVirtGuests || before.Guest.VM == nil || after.Guest.VM == nil {
		return
	}
	was, now := withInstancetype(before), withInstancetype(after)
	workbench.KeepFills(now, was)
	rollout := validate.ByKubeVirt(&now.Spec, &was.Spec, after.Guest.VM.Spec.UpdateVolumesStrategy, limits)
	d.Rollout = &rollout
	if d.Verdict == record.NeedsRestart && len(rollout.Open)+len(rollout.Restart) == 0 && len(rollout.Live)+len(rollout.Migrating) > 0 {
		d.Verdict = record.Compatible
	}
}

// withInstancetype returns the VMI of a VM with only its instancetype, its preference and its architecture applied.
func withInstancetype(r workbench.Reviewed) *v1.VirtualMachineInstance {
	vmi := r.Guest.Sparse.DeepCopy()
	instancetype.Apply(r.Guest.Input.Set, r.Guest.Input.Cluster.Limits.Version, vmi)
	vmi.Spec.Architecture = r.Guest.Explicit.Spec.Architecture
	return vmi
}
