package workbench

import (
	"cmp"

	"github.com/kilnvm/kiln/internal/review"
	"github.com/kilnvm/kiln/pkg/instancetype"
	"github.com/kilnvm/kiln/pkg/record"
	"github.com/kilnvm/kiln/pkg/validate"
	v1 "kubevirt.io/api/core/v1"
)

// rollOut says when the guest gets the change, where KubeVirt runs it. KubeVirt compares templates, with instancetype and preference applied: what else makes
// a VMI explicit was done when the VMI was created. A VMI without a VM cannot be changed, and has no rollout.
func (d *Difference) rollOut(before, after Reviewed) {
	limits := after.Guest.input.Cluster.Limits
	if !limits.KubeVirtGuests || before.Guest.VM == nil || after.Guest.VM == nil {
		return
	}
	was, now := before.applied(), after.applied()
	keepFills(now, was)
	rollout := validate.ByKubeVirt(&now.Spec, &was.Spec, after.Guest.VM.Spec.UpdateVolumesStrategy, limits)
	d.Rollout = &rollout
	if d.Verdict == record.NeedsRestart && len(rollout.Open)+len(rollout.Restart) == 0 && len(rollout.Live)+len(rollout.Migrating) > 0 {
		d.Verdict = record.Compatible
	}
}

// applied is the VMI of a VM with its instancetype and preference applied, and the architecture that it gets.
func (r Reviewed) applied() *v1.VirtualMachineInstance {
	vmi := r.Guest.sparse.DeepCopy()
	instancetype.Apply(r.Guest.input.Set, vmi)
	vmi.Spec.Architecture = r.Guest.Explicit.Spec.Architecture
	return vmi
}

// keepFills gives a VMI what KubeVirt has written into the stored VM, and an older manifest lacks: the update does not change it.
func keepFills(now, was *v1.VirtualMachineInstance) {
	if is := was.Spec.Domain.Machine; is != nil && now.Spec.Domain.Machine == nil {
		now.Spec.Domain.Machine = is.DeepCopy()
	}
	now.Spec.Architecture = cmp.Or(now.Spec.Architecture, was.Spec.Architecture)
	if was.Spec.Domain.Firmware != nil && now.Spec.Domain.Firmware == nil {
		now.Spec.Domain.Firmware = &v1.Firmware{}
	}
	now.Spec.Domain.Firmware = review.KeptFirmware(now.Spec.Domain.Firmware, was.Spec.Domain.Firmware)
	now.Annotations = review.KeptAnnotations(now.Annotations, was.Annotations)
}

// keepTemplate is keepFills for the templates of VMs.
func keepTemplate(now, was *v1.VirtualMachine) {
	if now.Spec.Template == nil || was.Spec.Template == nil {
		return
	}
	is, had := now.Spec.Template, was.Spec.Template
	vmi := &v1.VirtualMachineInstance{ObjectMeta: is.ObjectMeta, Spec: is.Spec}
	keepFills(vmi, &v1.VirtualMachineInstance{ObjectMeta: had.ObjectMeta, Spec: had.Spec})
	is.ObjectMeta, is.Spec = vmi.ObjectMeta, vmi.Spec
}
