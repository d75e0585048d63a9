package guestdiff

import (
	"fmt"
	"maps"
	"slices"

	"github.com/kilnvm/kiln/internal/workbench"
	"github.com/kilnvm/kiln/pkg/domain/kubevirt"
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

// addMovedAnew adds the devices that move because KubeVirt runs the guest and nothing keeps its addresses: libvirt assigns them anew at each start. A guest
// with recorded addresses keeps them.
func (d *Difference) addMovedAnew(before, after *Side) {
	if !after.Guest.Input.Cluster.Limits.KubeVirtGuests || hasPlaces(before.Guest.Recorded) {
		return
	}
	changed := map[string]bool{}
	for _, change := range d.Changes {
		changed[change.Device] = true
	}
	now := kubevirt.PlacedAnew(after.rendered.Frontend, after.Guest.Explicit)
	was := kubevirt.PlacedAnew(before.rendered.Frontend, before.Guest.Explicit)
	for _, key := range slices.Sorted(maps.Keys(was)) {
		if is, still := now[key]; still && is != was[key] && !changed[key] {
			kind, name := record.SplitKey(key)
			text := fmt.Sprintf("%s '%s' moves: without Kiln, libvirt assigns the addresses of the guest anew", kind, name)
			d.Changes = append(d.Changes, record.Change{Device: key, Text: text, Verdict: record.Breaks})
		}
	}
}

// hasPlaces reports whether a record has addresses. A record that only Kiln's controller has written, without the hook, has only a CPU.
func hasPlaces(r *record.Record) bool { return r != nil && len(r.Devices) > 0 }

// withInstancetype returns the VMI of a VM with only its instancetype, its preference and its architecture applied.
func withInstancetype(r workbench.Reviewed) *v1.VirtualMachineInstance {
	vmi := r.Guest.Sparse.DeepCopy()
	instancetype.Apply(r.Guest.Input.Set, r.Guest.Input.Cluster.Limits.Version, vmi)
	vmi.Spec.Architecture = r.Guest.Explicit.Spec.Architecture
	return vmi
}
