// Package vmrestore restores VMs from snapshots: it stops the target, checks whether the snapshot can be activated, locks the target, creates its claims,
// writes its spec and its hardware, and unlocks it.
//
// Each step is one write, and the stored objects show which step is next: another process continues if this one dies.
package vmrestore

import (
	"context"
	"errors"
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/condition"
	"github.com/kilnvm/kiln/internal/objects"
	"github.com/kilnvm/kiln/internal/snapshots/hardware"
	"github.com/kilnvm/kiln/internal/snapshots/operation"
	"github.com/kilnvm/kiln/internal/snapshots/vmlock"
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/snapshot"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	v1 "kubevirt.io/api/core/v1"
	api "kubevirt.io/api/snapshot/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

// finalizer is KubeVirt's finalizer of VirtualMachineRestores.
const finalizer = "snapshot.kubevirt.io/vmrestore-protection"

// Reconciler reconciles VirtualMachineRestores.
type Reconciler struct {
	statusWriter
	orphans *vmlock.OrphanReconciler
	steps   steps
}

type steps = operation.Steps[*state]

// state is a restore with the objects that it refers to.
type state struct {
	restore *api.VirtualMachineRestore
	// vm is the target; nil if it does not exist.
	vm *v1.VirtualMachine
	// kept is the content of the snapshot. The step readSnapshot sets it.
	kept snapshot.Kept
	// wanted is the target after the restore, and leftOut the devices that it loses. The step checkActivation sets them.
	wanted  *v1.VirtualMachine
	leftOut []snapshot.Device
}

// isWritten reports whether the target has the spec of this restore.
func (s *state) isWritten() bool {
	return s.vm != nil && s.vm.Annotations[snapshot.Mark] == snapshot.MarkOf(s.restore)
}

// hasLock reports whether this restore has locked the target.
func (s *state) hasLock() bool { return vmlock.IsLockedForRestore(s.vm, s.restore.Name) }

// New returns a reconciler.
func New(cluster *operation.Cluster, configuration func() config.Cluster, orphans *vmlock.OrphanReconciler) *Reconciler {
	writer := hardware.Writer{Cluster: cluster}
	status := statusWriter{cluster, writer}
	read := readSnapshot{cluster}
	claims, target := claimCreation{status}, targetWriter{cluster, writer}
	checkBeforeWrite := steps{claims.nameClaims, checkActivation{cluster, configuration}.Run, target.dryRunTarget}
	r := &Reconciler{statusWriter: status, orphans: orphans}
	// Each reconcile begins with the first step and goes on until a step waits or fails. stopTarget runs the checks itself before it stops a guest. finish does
	// nothing until the target is written.
	r.steps = steps{
		stopTarget{cluster, steps{read.Run, waitForOtherOperation, checkBeforeWrite.Run}}.Run, finish{status, orphans.Locker, read}.Run,
		read.Run, checkBeforeWrite.Run, r.lockTarget, claims.createClaims, target.writeTarget,
	}
	return r
}

// Reconcile takes the next steps of a VirtualMachineRestore.
func (r *Reconciler) Reconcile(ctx context.Context, key types.NamespacedName) (time.Duration, error) {
	found, err := objects.GetOrNil(ctx, r.Live, key, &api.VirtualMachineRestore{})
	if err != nil {
		return 0, err
	} else if found == nil {
		return 0, r.orphans.UnlockAll(ctx, key)
	}
	s := &state{restore: found}
	target := types.NamespacedName{Namespace: key.Namespace, Name: found.Spec.Target.Name}
	if s.vm, err = objects.GetOrNil(ctx, r.Live, target, &v1.VirtualMachine{}); err != nil {
		return 0, err
	}
	switch {
	case found.DeletionTimestamp != nil:
		return 0, r.finalizeRestore(ctx, s)
	case found.Status != nil && (ptr.Deref(found.Status.Complete, false) || operation.HasFailed(found.Status.Conditions)):
		return 0, r.orphans.UnlockFromRestore(ctx, s.vm, found.Name)
	case found.Status == nil:
		return operation.NextStep, r.reportProgress(ctx, s, operation.ConditionTrue(v1alpha1.ReasonInProgress, "the restore has begun"))
	case !controllerutil.ContainsFinalizer(found, finalizer):
		return operation.NextStep, r.addFinalizer(ctx, s)
	}
	after, err := r.takeSteps(ctx, s)
	blocked := (*blockedError)(nil)
	if errors.As(err, &blocked) && blocked.final {
		after, err = 0, r.failRestore(ctx, s, blocked)
	}
	if operation.IsRefused(err) {
		// A quota, a policy or a webhook refuses an object that the restore writes, such as a claim. Somebody may change that.
		err = waitBecause(v1alpha1.ReasonNotAdmitted, err.Error())
	}
	if errors.As(err, &blocked) {
		return r.pollDelay(s), r.reportBlocked(ctx, s, blocked)
	}
	return after, err
}

func (r *Reconciler) takeSteps(ctx context.Context, s *state) (time.Duration, error) {
	if errs := snapshot.CheckRestore(&s.restore.Spec); len(errs) > 0 {
		return 0, failBecause(v1alpha1.ReasonMalformed, condition.Mistakes(errs))
	}
	return r.steps.Reconcile(ctx, s)
}

// addFinalizer adds the finalizer. As in KubeVirt, the VM owns the restore if it exists.
func (r *Reconciler) addFinalizer(ctx context.Context, s *state) error {
	return r.Patch(ctx, s.restore, func() {
		controllerutil.AddFinalizer(s.restore, finalizer)
		if s.vm != nil && len(s.restore.OwnerReferences) == 0 {
			s.restore.OwnerReferences = []metav1.OwnerReference{*ownerReference(s.vm)}
		}
	})
}

// finalizeRestore undoes what a restore that is being deleted would leave behind.
func (r *Reconciler) finalizeRestore(ctx context.Context, s *state) error {
	if err := r.deleteUnusedHardware(ctx, s); err != nil {
		return err
	}
	if err := r.orphans.UnlockFromRestore(ctx, s.vm, s.restore.Name); err != nil {
		return err
	}
	return client.IgnoreNotFound(r.Patch(ctx, s.restore, func() { controllerutil.RemoveFinalizer(s.restore, finalizer) }))
}

// ownerReference returns a reference to the VM that owns an object. It does not block the deletion of the VM.
func ownerReference(vm *v1.VirtualMachine) *metav1.OwnerReference {
	owner := metav1.NewControllerRef(vm, v1.VirtualMachineGroupVersionKind)
	owner.BlockOwnerDeletion = nil
	return owner
}
