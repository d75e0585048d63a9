// Package vmclone reconciles VirtualMachineClones. A clone is a snapshot and a restore into another VM, as in KubeVirt. Both are deleted when the clone has
// succeeded.
package vmclone

import (
	"context"
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/condition"
	"github.com/kilnvm/kiln/internal/objects"
	"github.com/kilnvm/kiln/internal/snapshots/operation"
	"github.com/kilnvm/kiln/pkg/snapshot"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clone "kubevirt.io/api/clone/v1beta1"
)

// Reconciler reconciles VirtualMachineClones.
type Reconciler struct {
	statusWriter
	// phases are the steps of each phase. A phase without steps has ended.
	phases map[clone.VirtualMachineClonePhase]operation.Step[*clone.VirtualMachineClone]
}

// New returns a reconciler.
func New(cluster *operation.Cluster) *Reconciler {
	status := statusWriter{cluster}
	restore := ensureRestore{status}.Run
	return &Reconciler{statusWriter: status, phases: map[clone.VirtualMachineClonePhase]operation.Step[*clone.VirtualMachineClone]{
		clone.PhaseUnset:         checkClone{status}.Run,
		clone.SnapshotInProgress: ensureSnapshot{status}.Run,
		clone.RestoreInProgress:  restore,
		clone.CreatingTargetVM:   restore,
		clone.Succeeded:          cleanUp{status}.Run,
	}}
}

// Reconcile takes the step of the phase of a VirtualMachineClone.
func (r *Reconciler) Reconcile(ctx context.Context, key types.NamespacedName) (time.Duration, error) {
	found, err := objects.GetOrNil(ctx, r.Live, key, &clone.VirtualMachineClone{})
	if err != nil || found == nil || found.DeletionTimestamp != nil {
		return 0, err
	}
	phase := found.Status.Phase
	step, has := r.phases[phase]
	if !has {
		return 0, nil
	}
	after, err := operation.Steps[*clone.VirtualMachineClone]{step}.Reconcile(ctx, found)
	if !operation.IsRefused(err) || phase == clone.PhaseUnset || phase == clone.Succeeded {
		return after, err
	}
	return r.pollDelay(found), r.reportPhase(ctx, found, phase, operation.ConditionTrue(v1alpha1.ReasonNotAdmitted, err.Error()))
}

// checkClone begins a clone, or fails one that is malformed.
type checkClone struct{ statusWriter }

func (c checkClone) Run(ctx context.Context, cloned *clone.VirtualMachineClone) (operation.Result, error) {
	if errs := snapshot.CheckClone(&cloned.Spec); len(errs) > 0 {
		return c.failClone(ctx, cloned, v1alpha1.ReasonMalformed, condition.Mistakes(errs))
	}
	_, err := operation.CreatorOf(cloned)
	if err == nil && cloned.Spec.Target == nil {
		err = operation.ErrNoCreator // the webhook that notes the creator also sets the target
	}
	if err != nil {
		return c.failClone(ctx, cloned, v1alpha1.ReasonMalformed, err.Error())
	}
	begun := operation.ConditionTrue(v1alpha1.ReasonInProgress, "waits for a snapshot of the source")
	return operation.RetryAfter(operation.NextStep), c.reportPhase(ctx, cloned, clone.SnapshotInProgress, begun)
}

// Names of the objects that a clone creates. They are KubeVirt's.
func snapshotName(cloned *clone.VirtualMachineClone) string {
	return "tmp-snapshot-" + string(cloned.UID)
}

func restoreName(cloned *clone.VirtualMachineClone) string {
	return "tmp-restore-" + string(cloned.UID)
}

// ownerReferences returns a reference to a clone, so that an object is deleted with it.
func ownerReferences(cloned *clone.VirtualMachineClone) []metav1.OwnerReference {
	owner := metav1.NewControllerRef(cloned, clone.VirtualMachineCloneKind)
	owner.BlockOwnerDeletion = nil
	return []metav1.OwnerReference{*owner}
}
